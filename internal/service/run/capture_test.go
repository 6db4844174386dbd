package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
)

// listing is a sandbox whose agent lists these files.
func listing(t *testing.T, parts ...[]wire.FileInfo) *box.Box {
	return &box.Box{Agent: agent.New(func(context.Context) (net.Conn, error) {
		host, inside := net.Pipe()
		t.Cleanup(func() { inside.Close() })
		go func() {
			r, w := wire.NewReader(inside), wire.NewWriter(inside)
			for range 2 { // the hello and the request
				if _, err := r.Read(); err != nil {
					t.Error(err)
				}
			}
			_ = w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version})
			for i, files := range parts {
				_ = w.JSON(wire.KindReply, wire.Reply{Files: files, More: i < len(parts)-1})
			}
		}()
		return host, nil
	})}
}

// Patterns with braces and stars, which take 20 ms for each name, end the search for artifacts at its timeout.
func TestPatternsThatTakeLong(t *testing.T) {
	name := strings.Repeat("a", 250)
	b := listing(t, []wire.FileInfo{{Path: "one", Type: "file"}, {Path: name, Type: "file"}, {Path: name + "b", Type: "file"}})
	slow := strings.Repeat("{a,a}", 6) + "*" + strings.Repeat("a", 110) + "b"
	for most, want := range map[time.Duration]error{time.Microsecond: errPatterns, matchTime: nil} {
		found, _, err := find(t.Context(), b, []string{"one", slow}, most)
		if !errors.Is(err, want) || want == nil && len(found) != 2 {
			t.Errorf("in %v: %d files, %v", most, len(found), err)
		}
	}
}

// Folders bound the number of artifacts: with few bytes, deep ones would use many blocks of the disk. Empty files and links are not stored.
func TestArtifactsInManyFolders(t *testing.T) {
	var files []wire.FileInfo
	for i := range maxFolders/200 + 10 {
		files = append(files, wire.FileInfo{Path: fmt.Sprintf("%d/%sf", i, strings.Repeat("d/", 199)), Type: "file", Size: 1})
	}
	last := path.Dir(files[len(files)-1].Path)
	files = append(files, wire.FileInfo{Path: last + "/empty", Type: "file"}, wire.FileInfo{Path: last + "/link", Type: "symlink", Target: "f"},
		wire.FileInfo{Path: path.Dir(files[0].Path) + "/g", Type: "file", Size: 1})
	found, warnings, err := find(t.Context(), listing(t, files), []string{"**"}, matchTime)
	if want := "10 artifacts beyond the first 53 were not captured"; err != nil || len(found) != 53 || len(warnings) != 1 || warnings[0] != want {
		t.Errorf("%d files, %q, %v", len(found), warnings, err)
	}
}

// The bytes of long names bound the number of artifacts, also of empty files and links.
func TestArtifactsWithLongNames(t *testing.T) {
	links := slices.Repeat([]wire.FileInfo{{Path: "link", Type: "symlink", Target: strings.Repeat("x", maxNames/40)}}, 24)
	found, warnings, err := find(t.Context(), listing(t, links, links), []string{"**"}, matchTime)
	if want := "9 artifacts beyond the first 39 were not captured"; err != nil || len(found) != 39 || len(warnings) != 1 || warnings[0] != want {
		t.Errorf("%d files, %q, %v", len(found), warnings, err)
	}
}

// A file's name forges no line of what a model reads, and is cut.
func TestWarningsOfForgedNames(t *testing.T) {
	c := &captured{artifacts: []belljar.Artifact{
		{Path: "out\nwarning: forged", Skipped: skippedCap}, {Path: "plot é.png", Skipped: skippedUnreadable}, {Path: strings.Repeat("x", 3000), Skipped: skippedFailed},
	}}
	want := []string{
		`artifact "out\nwarning: forged" was not captured: all artifacts of a run are limited to 7 MiB`, "artifact plot é.png could not be read",
		"artifact " + strings.Repeat("x", 200) + "… could not be kept",
	}
	if got := c.warnings(belljar.Limits{ArtifactMB: 7}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
