//go:build linux

package index

import (
	"archive/zip"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/belljar/belljar/test/peer"
)

// Serve serves more kinds of indexes on a peer of the index: [Index.CargoURL], [Index.GoURL], [Index.MavenURL] and [Index.AptURL].
func (x *Index) Serve(t testing.TB, p *peer.Peer) {
	t.Helper()
	for _, path := range []string{"/cargo/", "/go/", "/maven/", "/apt/"} {
		p.Handle(path, x.serve)
	}
	x.put("/cargo/config.json", []byte(`{"dl": "https://`+x.Files+`/files/crates"}`))
}

// CargoURL returns the address for cargo's settings. The files of crates are on the other host.
func (x *Index) CargoURL() string { return "https://" + x.Host + "/cargo" }

// GoURL returns the address for Go's settings.
func (x *Index) GoURL() string { return "https://" + x.Host + "/go" }

// MavenURL returns the address for Maven's settings.
func (x *Index) MavenURL() string { return "http://" + x.Host + "/maven" }

// AptURL returns the address for apt's settings.
func (x *Index) AptURL() string { return "http://" + x.Host + "/apt" }

// Crate adds a crate, whose name has four letters or more, with a version and this library to the index.
func (x *Index) Crate(name, version, library string) {
	body := archive(name+"-"+version+"/", map[string]string{
		"Cargo.toml": "[package]\nname = \"" + name + "\"\nversion = \"" + version + "\"\nedition = \"2021\"\n", "src/lib.rs": library,
	})
	sum := sha256.Sum256(body)
	line, _ := json.Marshal(map[string]any{
		"name": name, "vers": version, "deps": []any{}, "cksum": hex.EncodeToString(sum[:]), "features": map[string]any{}, "yanked": false,
	})
	x.put(fmt.Sprintf("/cargo/%s/%s/%s", name[:2], name[2:4], name), line)
	x.put(fmt.Sprintf("/files/crates/%s/%s/download", name, version), body)
}

// Module adds a Go module with a version and a file main.go to the proxy.
func (x *Index) Module(name, version, program string) {
	mod := "module " + name + "\n"
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for file, text := range map[string]string{"go.mod": mod, "main.go": program} {
		f, _ := w.Create(name + "@" + version + "/" + file)
		_, _ = f.Write([]byte(text))
	}
	_ = w.Close()
	at := "/go/" + name + "/@v/"
	x.put(at+"list", []byte(version+"\n"))
	x.put(at+version+".info", []byte(`{"Version":"`+version+`"}`))
	x.put(at+version+".mod", []byte(mod))
	x.put(at+version+".zip", out.Bytes())
}

// Parent adds a POM with properties to the Maven repository, as a parent for other POMs.
func (x *Index) Parent(group, name, version string) {
	text := "<project><modelVersion>4.0.0</modelVersion><groupId>" + group + "</groupId><artifactId>" + name + "</artifactId><version>" + version +
		"</version><packaging>pom</packaging></project>\n"
	at := "/maven/" + group + "/" + name + "/" + version + "/" + name + "-" + version + ".pom"
	sum := sha1.Sum([]byte(text))
	x.put(at, []byte(text))
	x.put(at+".sha1", []byte(hex.EncodeToString(sum[:])))
}

// Deb adds one package, a file, to the apt repository of a Debian release. It is not signed.
func (x *Index) Deb(release, name, content string) {
	arch := map[string]string{"amd64": "amd64", "arm64": "arm64"}[runtime.GOARCH]
	sum := sha256.Sum256([]byte(content))
	list := fmt.Sprintf("Package: %s\nVersion: 1.0\nArchitecture: %s\nMaintainer: Test <test@example.com>\nFilename: pool/%s.deb\nSize: %d\nSHA256: %x\nDescription: test\n\n",
		name, arch, name, len(content), sum)
	sum = sha256.Sum256([]byte(list))
	x.put("/apt/pool/"+name+".deb", []byte(content))
	x.put("/apt/dists/"+release+"/main/binary-"+arch+"/Packages", []byte(list))
	x.put("/apt/dists/"+release+"/Release", fmt.Appendf(nil, "Origin: Test\nSuite: %s\nCodename: %s\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nArchitectures: %s\nComponents: main\nSHA256:\n %x %d main/binary-%s/Packages\n",
		release, release, arch, sum, len(list), arch))
}
