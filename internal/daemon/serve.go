package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// Serve runs a server until a signal ends it.
func (h *Host) Serve(ctx context.Context, s local.ServeOptions) (err error) {
	h, flush := h.queued()
	defer flush()
	if s.Private {
		return h.private(ctx, s)
	}
	cfg, err := load(h, s)
	if err != nil {
		return err
	}
	for _, warning := range cfg.Warnings() {
		h.Print("warning: %s", warning)
	}
	if err := checkPair(&cfg); err != nil {
		return err
	}
	if cfg.Data == "" {
		if cfg.Data, err = defaultData(h); err != nil {
			return err
		}
	}
	data, err := openData(cfg.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	cfg.Data = data.path // absolute: the reader of our output may be in another folder
	if data.open() {
		h.Print("warning: others can write in the data folder, and replace its keys: chmod o-w %s", data.path)
	}

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)

	listener, err := listen(cfg.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	n, err := openDaemon(ctx, h, &cfg, data, serveMode{
		required: requiredProtections(&cfg, service.AllProtections()), lifetime: runtime.LifetimeDetached, images: data.path,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()

	server := api.NewServer(n.handler, n.log)
	listener = api.NewListener(listener, n.log)
	served := make(chan error, 1)
	go func() {
		if cfg.TLSCert != "" {
			served <- server.ServeTLS(listener, cfg.TLSCert, cfg.TLSKey)
		} else {
			served <- server.Serve(listener)
		}
	}()
	if err := announce(ctx, h, s.JSON, &cfg, n, address(listener, cfg.TLSCert != "")); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case received := <-signals:
		h.Print("%s: no new runs; current ones have %s to end", received, cfg.Drain)
		if !cfg.EndSessions && cfg.Store != "memory" {
			h.Print("sessions and their commands continue for %s; the next server reattaches to them", cfg.Lease)
		}
	}
	return n.drain(cfg.Drain, server, signals)
}

// load reads the configuration: file, environment, flags.
func load(h *Host, s local.ServeOptions) (config.Config, error) {
	set := map[string]string{}
	maps.Copy(set, s.Set)
	if s.Listen != "" {
		set["listen"] = s.Listen
	}
	if s.Data != "" {
		set["data"] = s.Data
	}
	return config.Load(config.Sources{File: s.Config, Env: h.Env, Set: set})
}

// checkPair checks the certificate and its key before the server announces HTTPS.
func checkPair(cfg *config.Config) error {
	if cfg.TLSCert == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey); err != nil {
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "the TLS certificate cannot be used", Err: err,
			Hint: "tls_cert and tls_key name PEM files: a certificate chain, and its private key",
		}
	}
	return nil
}

// listen opens the server's address. It replaces a stale socket file.
func listen(addr string) (net.Listener, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
		conn, err := net.Dial(network, addr)
		if err == nil {
			conn.Close()
		} else if info, gone := os.Lstat(addr); errors.Is(err, errRefused) && gone == nil && info.Mode().Type() == fs.ModeSocket {
			if err := os.Remove(addr); err != nil {
				return nil, err
			}
		}
	}
	l, err := net.Listen(network, addr)
	if err == nil && network == "unix" {
		err = os.Chmod(addr, 0o600)
	}
	if err != nil {
		return nil, &belljar.Error{
			Code: belljar.CodeInternal, Message: "cannot listen on " + addr, Err: err, Hint: "choose another address with --listen",
		}
	}
	return l, nil
}

// address returns the local URL of a listener.
func address(l net.Listener, secure bool) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}

// exposed reports whether others can read the traffic to an address: it speaks HTTP without TLS beyond this machine.
func exposed(listen, url string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err == nil && strings.HasPrefix(url, "http:") && host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// served is the output of serve --json.
type served struct {
	URL     string `json:"url"`
	APIKey  string `json:"api_key,omitempty"` // only if belljar generated it and the journal does not keep the output
	KeyFile string `json:"api_key_file,omitempty"`
	Data    string `json:"data"`
	Runtime string `json:"runtime"`
	Why     string `json:"runtime_reason"`
	PID     int    `json:"pid"`
}

// announce prints that the server is ready, and how to use it. It prints no secret to a service manager, which keeps the output of
// its services.
func announce(ctx context.Context, h *Host, asJSON bool, cfg *config.Config, n *server, url string) error {
	if config.WeakKey(n.madeKey) {
		h.Print("warning: the key in %s has fewer than 16 characters and can be guessed", n.keyFile)
	}
	if asJSON {
		ready := served{URL: url, APIKey: n.madeKey, KeyFile: n.keyFile, Data: cfg.Data, Runtime: n.runtime, Why: n.reason, PID: os.Getpid()}
		if inJournal(h, h.Stdout) {
			ready.APIKey = ""
		}
		return json.NewEncoder(h.Stdout).Encode(ready)
	}
	h.Print("serving on %s", url)
	key, first := "$SANDBOX_API_KEY", ""
	if origin, set := cfg.Set(config.Prefix + "API_KEY"); set && !strings.HasSuffix(origin, " in the environment") {
		first = "set SANDBOX_API_KEY to the key (" + origin + "), then "
	}
	_, kept := h.Getenv("JOURNAL_STREAM")
	stderr := h.Stderr
	if q, ok := stderr.(*logQueue); ok {
		stderr = q.to
	}
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		kept = false // the variable is inherited: a service manager started the terminal's program
	}
	switch {
	case n.madeKey == "":
	case kept:
		key = "$(cat " + n.keyFile + ")"
		h.Print("the API key is in %s", n.keyFile)
	default:
		key = n.madeKey
		h.Print("API key %s (kept in %s)", n.madeKey, n.keyFile)
	}
	announcePage(ctx, h, cfg, n, url, kept)
	if exposed(cfg.Listen, url) {
		h.Print("warning: it listens on %s without TLS: keys and code can be read on the way", cfg.Listen)
	}
	h.Print("runtime %s: %s", n.runtime, n.reason)
	if strings.HasPrefix(url, "http") {
		h.Hint("%scurl -H \"X-API-KEY: %s\" %s%s/runtimes, or read %s/docs", first, key, url, api.Prefix, url)
	}
	return nil
}

// inJournal reports whether w is connected to the journal of systemd. The variable alone is not enough, because programs inherit it.
func inJournal(h *Host, w io.Writer) bool {
	stream, _ := h.Getenv("JOURNAL_STREAM")
	f, ok := w.(*os.File)
	if !ok || stream == "" {
		return false
	}
	info, err := f.Stat()
	return err == nil && fileID(info) == stream
}

// drain ends a server: it refuses new runs, waits for active ones up to grace, and cancels the rest. A second signal ends the wait.
func (n *server) drain(grace time.Duration, server *http.Server, now <-chan os.Signal) error {
	n.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	go func() {
		select {
		case <-now:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := n.service.Drain(ctx)
	// By now the remaining runs are cancelled, and their streams have ended.
	shut := n.streams.Close()
	if n.previews != nil {
		shut = errors.Join(shut, n.previews.Close())
	}
	shut = errors.Join(shut, n.workspaceDoor.Close())
	if n.models != nil {
		shut = errors.Join(shut, n.models.Close())
	}
	closing, done := context.WithTimeout(context.Background(), closeTime)
	defer done()
	shut = errors.Join(shut, server.Shutdown(closing))
	if errors.Is(shut, context.DeadlineExceeded) {
		shut = server.Close() // closes the remaining connections
	}
	return errors.Join(err, shut)
}

// closeTime limits how long active requests may take after the last run.
const closeTime = 5 * time.Second
