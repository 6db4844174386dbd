package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/shelf"
)

// applyEgress copies the configuration's network into a policy. own means that the caller is the operator, as without a server:
// unset rules then allow every public host, and the private addresses that the caller lists.
func applyEgress(p *service.Policy, cfg *config.Config, own bool) {
	p.NetworkDefault = cfg.NetworkDefault
	p.EgressAllow, p.EgressAllowUsers, p.EgressAllowTrust = cfg.EgressAllow, cfg.EgressAllowUsers, cfg.EgressAllowTrust
	p.EgressPorts, p.EgressPrivate = cfg.EgressPorts, cfg.EgressPrivate
	p.EgressPresets, p.PackageMirrors = cfg.EgressPresets, cfg.PackageMirrors
	if !own {
		return
	}
	if _, set := cfg.Set(config.Prefix + "EGRESS_ALLOW"); !set {
		p.EgressAllow = []string{"*"}
	}
	if _, set := cfg.Set(config.Prefix + "EGRESS_PRIVATE"); !set {
		p.EgressPrivate = true
	}
	if _, set := cfg.Set(config.Prefix + "EGRESS_PRESETS"); !set {
		p.EgressPresets = service.Presets()
	}
}

// checkNetwork refuses a default network, or a network of models, for which every request would be refused.
func checkNetwork(p service.Policy, cfg *config.Config) error {
	reach, err := p.Egress()
	if err != nil {
		return err
	}
	var caller belljar.Caller
	if rules := p.EgressAllowUsers; len(rules) > 0 { // some users may have a network even if others have none
		caller.ID = rules[0][:strings.LastIndexByte(rules[0], '=')]
	}
	allow := belljar.ParseEgress(cfg.MCPAllow)
	if _, err := egress.ParseRules(allow); cfg.MCP && err != nil {
		return ofSetting("SANDBOX_MCP_ALLOW", err)
	}
	for _, c := range []struct {
		setting string
		set     bool
		spec    belljar.NetworkSpec
	}{
		{"SANDBOX_NETWORK_DEFAULT", true, belljar.NetworkSpec{}},
		{"SANDBOX_MCP_ALLOW", cfg.MCP && !allow.IsZero(), belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: allow}},
		{"SANDBOX_MCP_ALLOW_PRESETS", cfg.MCP && len(cfg.MCPAllowPresets) > 0, belljar.NetworkSpec{
			NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.Egress{Presets: cfg.MCPAllowPresets},
		}},
	} {
		if _, _, err := reach.Network(caller, "", c.spec); err != nil && c.set {
			return ofSetting(c.setting, err)
		}
	}
	return nil
}

// egressOptions returns how sandboxes resolve names, and the authorities that Belljar's own clients in them trust.
func egressOptions(cfg *config.Config) (o service.EgressOptions, err error) {
	if cfg.EgressCAFile != "" {
		o.CA, err = os.ReadFile(cfg.EgressCAFile)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(o.CA) {
			err = errors.New(cfg.EgressCAFile + " has no certificate")
		}
		if err != nil {
			return o, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: "the certificates of SANDBOX_EGRESS_CA_FILE cannot be used", Err: err,
				Hint: "it names a file of certificates in PEM; unset, those of the image are trusted",
			}
		}
	}
	server := cfg.Resolver()
	if server == "" {
		return o, nil
	}
	dialer := net.Dialer{Timeout: 2 * time.Second}
	o.Resolver = &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, server)
		},
	}
	return o, nil
}

// packageOptions returns how packages are installed, and cached in a data folder.
func packageOptions(cfg *config.Config, data string) service.PackageOptions {
	return service.PackageOptions{
		Shelf: &shelf.Shelf{Dir: filepath.Join(data, "packages"), Keep: int64(cfg.PackageKeepMB) << 20, Max: int64(cfg.PackageMaxMB) << 20},
		TTL:   time.Duration(cfg.PackageTTLHours) * time.Hour, Time: cfg.PackageTimeout, MB: cfg.PackageMaxMB,
	}
}

// snapshotOptions returns the limits of snapshots, and the folder where snapshots for runs are unpacked.
func snapshotOptions(cfg *config.Config, data string) service.SnapshotOptions {
	return service.SnapshotOptions{
		SnapshotLimits: service.SnapshotLimits{
			MB: cfg.SnapshotMaxMB, Files: cfg.SnapshotMaxFiles, PerUser: orNone(cfg.SnapshotsPerUser), TTL: time.Duration(cfg.SnapshotTTLHours) * time.Hour,
		},
		Shelf: &shelf.Shelf{
			Dir: filepath.Join(data, "snapshots"), Keep: int64(cfg.SnapshotKeepMB) << 20, Links: true,
			Max: math.MaxInt64, // a snapshot's size is checked when it is made; SNAPSHOT_MAX_MB may be lower now
		},
	}
}
