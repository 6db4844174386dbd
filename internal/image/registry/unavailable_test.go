package registry

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/belljar/belljar"
)

// TestShown: a failure shows callers no address of the operator's network. Its cause, for the log, has them.
func TestShown(t *testing.T) {
	repo, err := name.NewRepository("registry.example/app")
	if err != nil {
		t.Fatal(err)
	}
	r := &Repository{repo: repo, ref: "registry.example/app:1"}
	inside := &net.TCPAddr{IP: net.IPv4(10, 9, 9, 9), Port: 53}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: inside, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"no such host": {
			&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "registry.example", Server: inside.String(), IsNotFound: true}},
			"registry.example has no address that can be found",
		},
		"a resolver that is silent": {
			&net.DNSError{Err: "read udp 10.9.9.9:4->10.9.9.9:53: i/o timeout", Name: "registry.example", Server: inside.String(), IsTimeout: true},
			"registry.example has no address that can be found",
		},
		"refused":   {&url.Error{Op: "Get", URL: "https://registry.example/v2/", Err: refused}, "dial tcp: connect: connection refused"},
		"a proxy":   {&net.OpError{Op: "proxyconnect", Net: "tcp", Err: refused}, "dial tcp: connect: connection refused"},
		"broken":    {fmt.Errorf("transport: %w", &net.OpError{Op: "read", Net: "tcp", Source: inside, Addr: inside, Err: syscall.ECONNRESET}), "read tcp: connection reset by peer"},
		"cut off":   {&net.OpError{Op: "read", Net: "tcp", Addr: inside, Err: io.EOF}, "the connection broke off"},
		"a name":    {&privateError{address: "10.9.9.9", host: "registry.example"}, "the address of registry.example is not a public address"},
		"a literal": {&privateError{address: "10.9.9.8", host: "10.9.9.8"}, "10.9.9.8 is not a public address"},
	} {
		t.Run(name, func(t *testing.T) {
			e, ok := r.fail(t.Context(), tt.err).(*belljar.Error)
			if !ok {
				t.Fatalf("%v", e)
			}
			if want := `image "registry.example/app:1" cannot be pulled: ` + tt.want; e.Message != want || e.Details["reason"] != tt.want {
				t.Errorf("%q, %v, not %q", e.Message, e.Details, want)
			}
			if !strings.Contains(e.Error(), "10.9.9.") {
				t.Errorf("the log has %q", e)
			}
		})
	}
}
