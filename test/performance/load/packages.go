//go:build linux

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// packages measures a run with cached packages and one without, in turns.
func packages(ctx context.Context, binary, data string, out *sheet) error {
	const what, budget = "a second run with the same packages, beside one without, p50", "50 ms more"
	if text, err := exec.CommandContext(ctx, "/usr/bin/python3", "-m", "pip", "--version").CombinedOutput(); err != nil {
		out.put(what, budget, "not measured: no pip: %s", bytes.TrimSpace(text))
		return nil
	}
	index, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: http.HandlerFunc(servePip)}
	go web.Serve(index) //nolint:errcheck // it is closed below
	defer web.Close()
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer names.Close()
	go serveNames(names)
	_, port, _ := net.SplitHostPort(index.Addr().String())
	s, err := start(binary, data, "--set", "egress_presets=pip", "--set", "package_mirrors=pip=http://packages.test:"+port+"/pip",
		"--set", "egress_ports="+port, "--set", "egress_resolver="+names.LocalAddr().String(), "--set", "egress_allow=127.0.0.1", "--set", "egress_private=true")
	if err != nil {
		return err
	}
	with := oneShot("/bin/true")
	with["packages"] = map[string]any{"pip": []string{"measured"}}
	var times [2][]time.Duration
	for i := range 64 {
		for n, body := range []map[string]any{with, oneShot("/bin/true")} {
			var run struct {
				answer
				Message string `json:"message"`
			}
			begin := time.Now()
			if err = s.ask(ctx, http.MethodPost, prefix+"/runs?wait=600s", body, &run); err == nil && run.Phase != "completed" {
				err = fmt.Errorf("run %s is %s: %s", run.ID, run.Phase, run.Message)
			}
			if err != nil {
				_ = s.stop()
				return err
			}
			if i >= 4 { // the first run installs
				times[n] = append(times[n], time.Since(begin))
			}
		}
	}
	kept, none := quantile(times[0], 0.5), quantile(times[1], 0.5)
	out.put(what, budget, "%.1f ms more (%.1f and %.1f ms)", ms(kept-none), ms(kept), ms(none))
	return s.stop()
}

// servePip serves an index with one package.
func servePip(w http.ResponseWriter, r *http.Request) {
	const file = "measured-1.0-py3-none-any.whl"
	switch {
	case strings.HasSuffix(r.URL.Path, ".whl"):
		z := zip.NewWriter(w)
		for name, text := range map[string]string{
			"measured.py": "", "measured-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: measured\nVersion: 1.0\n",
			"measured-1.0.dist-info/WHEEL":  "Wheel-Version: 1.0\nGenerator: load\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
			"measured-1.0.dist-info/RECORD": "",
		} {
			if f, err := z.Create(name); err == nil {
				_, _ = f.Write([]byte(text))
			}
		}
		_ = z.Close()
	case r.URL.Path == "/pip/measured/":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><a href="/files/%s">%[1]s</a>`, file)
	default:
		http.NotFound(w, r)
	}
}

// serveNames returns an address for every name.
func serveNames(conn net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
		}
		if answer, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}
