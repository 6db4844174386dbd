package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// A private server is one program's own: the clients of three languages start one each where they are told to work
// without a server. It ends with that program, however that ends, and leaves nothing.

// privateURL is what a private server is called in requests. It has no port; the socket is the address.
const privateURL = "http://belljar.local"

// private is what serve --private says, once, when requests are answered.
type private struct {
	Socket      string   `json:"socket"`
	BaseURL     string   `json:"base_url"`
	APIKey      string   `json:"api_key"`
	PID         int      `json:"pid"`
	Version     string   `json:"version"`
	NotEnforced []string `json:"not_enforced,omitempty"` // protections that this host does not have
}

// private serves the program at the other end of standard input until it goes away.
func (h *Host) private(ctx context.Context, s local.Serving) (err error) {
	if err := lifeline(h.Stdin); err != nil {
		return err
	}
	// Whoever reads what we say can be gone before us: then it is not said, last words included, and the end goes its usual
	// way. Ignoring the signal would do, too, but our children would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	orphaned := make(chan struct{})
	go func() {
		defer close(orphaned)
		_, _ = io.Copy(io.Discard, h.Stdin) // an error is an end, too
	}()

	cfg, data, err := privateConfig(h, s)
	if err != nil {
		return err
	}
	place, err := openPrivate(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	listener, err := listen("unix:" + place.socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	n, err := openDaemon(ctx, h, &cfg, place.data, manner{
		required: demanded(&cfg, service.CoreProtections()), lifetime: runtime.LifetimeCreator, images: place.images(h, &cfg),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if len(n.weaker) > 0 {
		h.Say("not enforced on this host: %s", strings.Join(n.weaker, ", "))
	}
	n.behind(place.sweep)

	server := api.NewServer(n.handler, n.log)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ready := private{
		Socket: place.socket, BaseURL: privateURL, APIKey: cfg.APIKey, PID: os.Getpid(), Version: h.Version, NotEnforced: n.weaker,
	}
	if err := json.NewEncoder(h.Stdout).Encode(ready); err != nil {
		return errors.Join(err, n.drain(0, server, nil))
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-signals:
	case <-orphaned:
	}
	return n.drain(0, server, nil)
}

// lifeline checks that standard input ends with the program that holds its other end, and not before.
func lifeline(stdin io.Reader) error {
	f, ok := stdin.(*os.File)
	if stdin != nil && !ok {
		return nil
	}
	if ok {
		if info, err := f.Stat(); err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
			return nil
		}
	}
	return mistake("start it from a program, with a pipe for its standard input; people want: belljar serve",
		"serve --private lives as long as its standard input, which must be a pipe")
}

// privateConfig is the configuration of a server for one program on this machine. What makes a server reachable is not taken
// from files and the environment, which are about another one, and refused as a flag. data is the folder for data, "" for
// none that stays.
func privateConfig(h *Host, s local.Serving) (cfg config.Config, data string, err error) {
	if s.Listen != "" {
		return cfg, "", notPrivate("--listen")
	}
	if cfg, err = load(h, s); err != nil {
		return cfg, "", err
	}
	for _, name := range []string{"LISTEN", "TLS_CERT", "TLS_KEY", "PUBLIC_URL", "API_KEY", "END_SESSIONS"} {
		if origin, set := cfg.Set(config.Prefix + name); set && strings.HasPrefix(origin, "flag ") {
			return cfg, "", notPrivate("--set " + strings.ToLower(name))
		}
	}
	if origin, _ := cfg.Set(config.Prefix + "DATA"); strings.HasPrefix(origin, "flag ") {
		data = cfg.Data
	}
	cfg.TLSCert, cfg.TLSKey, cfg.PublicURL = "", "", ""
	cfg.APIKey, cfg.EndSessions = newKey(), true
	for _, warning := range cfg.Warnings() {
		h.Say("warning: %s", warning)
	}
	unset := func(name string) bool {
		_, set := cfg.Set(config.Prefix + name)
		return !set
	}
	if data == "" && unset("STORE_BACKEND") && unset("STORE_DB_PATH") {
		cfg.Store = "memory"
	}
	if unset("LOG_LEVEL") {
		cfg.LogLevel = "warn"
	}
	if unset("LOG_FORMAT") {
		cfg.LogFormat = "text"
	}
	if unset("POOL_SIZE") {
		cfg.PoolSize = 2 // there is one caller, who is waiting for the start
	}
	if unset("MIN_FREE_MB") {
		cfg.MinFreeMB = 64 // temporary folders are small
	}
	return cfg, data, nil
}

func notPrivate(what string) error {
	return mistake("leave it out: the server prints its address and its key", "%s does not go with --private", what)
}
