package egress

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// BenchmarkBroker compares a request on a persistent connection through the gate with a direct one, in turns, and reports the
// time to make a new leaf.
func BenchmarkBroker(b *testing.B) {
	a := newAPI(b, ok, nil)
	dial := map[string]func() (net.Conn, error){
		"direct":   func() (net.Conn, error) { return net.Dial("tcp", a.peers[netip.AddrPortFrom(public, 443)]) },
		"brokered": func() (net.Conn, error) { return a.connect("a.example.com", 443), nil },
	}
	took := map[string][]time.Duration{}
	clients := map[string]*http.Client{}
	for name, dial := range dial {
		transport := &http.Transport{
			DialContext:     func(context.Context, string, string) (net.Conn, error) { return dial() },
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}
		defer transport.CloseIdleConnections()
		clients[name] = &http.Client{Transport: transport}
	}
	for b.Loop() {
		for name, client := range clients {
			start := time.Now()
			resp, err := client.Get("https://a.example.com/")
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			took[name] = append(took[name], time.Since(start))
		}
		start := time.Now()
		a.authority.leaves = map[string]*tls.Certificate{}
		if _, err := a.authority.leaf("a.example.com", time.Now()); err != nil {
			b.Fatal(err)
		}
		took["leaf"] = append(took["leaf"], time.Since(start))
	}
	for name, list := range took {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds()), name+"-p50-us")
	}
}
