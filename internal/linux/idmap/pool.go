//go:build linux

package idmap

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/installed"
	"github.com/belljar/belljar/internal/linux/rundir"
)

// Mode is the source of a sandbox's ids.
type Mode string

// The modes, best first.
const (
	ModeRoot   Mode = "root"   // from the machine's id space; a range of its own for each sandbox
	ModeSub    Mode = "subid"  // from the user's subordinate ids; likewise, through newuidmap
	ModeSingle Mode = "single" // the user's own id, shared by all of the user's sandboxes
)

// Options configure a pool. Set them in tests only.
type Options struct {
	// Dir holds the lock files and is shared by all installations on the machine; default ids in [rundir.Default]. Only
	// claims in the same folder see each other: share it between containers that share a user namespace.
	Dir string
	// Root replaces "/" when /etc and /proc are read.
	Root string
	// UID and GID replace our own effective ids, if Root is set.
	UID, GID int
}

// Pool holds the ids that this process may claim. It is safe for concurrent use.
type Pool struct {
	Mode  Mode
	Slots int    // how many sandboxes can have ids simultaneously; 0 in ModeSingle, which has no limit
	Hint  string // how to get a better mode or more slots, "" if there is no better one

	owned    bool // an id of its range can own a namespace
	dir      string
	uid, gid int
	layout   layout
	spans    []span // in slots
}

// Discover finds the sources of ids. It changes nothing.
func Discover(o Options) (*Pool, error) {
	p := &Pool{dir: o.Dir, uid: o.UID, gid: o.GID}
	if o.Root == "" {
		p.uid, p.gid = os.Geteuid(), os.Getegid()
	}
	p.dir = cmp.Or(p.dir, filepath.Join(rundir.Default(), "ids"))
	name := userName(o, p.uid)
	var ids, mine, taken []span
	for i, kind := range []string{"uid", "gid"} {
		mapText, err := os.ReadFile(filepath.Join(o.Root, "/proc/self", kind+"_map"))
		if err != nil {
			return nil, fmt.Errorf("find own ids: %w", err)
		}
		subText, err := os.ReadFile(filepath.Join(o.Root, "/etc/sub"+kind))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("find subordinate ids: %w", err)
		}
		mapped := parseMap(string(mapText))
		sub, all := parseSub(string(subText), name, strconv.Itoa(p.uid))
		if i == 0 {
			ids, mine = mapped, both(sub, mapped)
		} else { // one slot gives a user and a group range of the same numbers
			ids, mine = both(ids, mapped), both(mine, both(sub, mapped))
		}
		taken = append(taken, all...)
	}
	if p.uid == 0 && !may(o, unix.CAP_SETUID, unix.CAP_SETGID) {
		p.Mode, p.Hint = ModeSingle, "root without CAP_SETUID and CAP_SETGID; in a container, add these two"
		return p, nil
	}
	own := []span{{int64(p.uid), int64(p.uid) + 1}, {int64(p.gid), int64(p.gid) + 1}}
	switch {
	case p.uid == 0:
		p.owned = may(o, unix.CAP_KILL) // without it only the owner can kill the processes inside
		p.root(ids, append(taken, accounts(o)...))
	default:
		p.rootless(o.Root, without(mine, append(own, accounts(o)...)), name)
	}
	return p, nil
}

func (p *Pool) use(mode Mode, l layout, ids []span) bool {
	p.layout, p.spans = l, l.slots(ids)
	for _, s := range p.spans {
		p.Slots += int(s.size())
	}
	p.Mode = mode
	return p.Slots > 0
}

func (p *Pool) root(mapped, taken []span) {
	free := without(mapped, taken)
	if p.use(ModeRoot, wide(), both(free, []span{{rootFirst, rootEnd}})) {
		owners := []span{{rootOwners, rootOwners + (rootEnd-rootFirst)/p.layout.size}}
		p.owned = p.owned && len(without(owners, free)) == 0
		return
	}
	p.Hint = "this user namespace maps few ids; give it more, or run belljar in the host's"
	if p.use(ModeRoot, narrow(), without(free, []span{{0, smallFirst}, {nobody, nobody + 2}})) {
		return
	}
	p.Mode = ModeSingle
}

func (p *Pool) rootless(root string, ids []span, name string) {
	name = cmp.Or(name, strconv.Itoa(p.uid))
	for _, helper := range []string{"newuidmap", "newgidmap"} {
		if _, err := installed.Find(root, helper); err != nil {
			p.Mode, p.Hint = ModeSingle, helper+" is missing; install the uidmap package (Debian, Ubuntu) or shadow-utils"
			return
		}
	}
	if !p.use(ModeSub, narrow(), ids) {
		p.Mode = ModeSingle
		p.Hint = "no subordinate ids; as root: " + Grant(root, name)
	}
}

// may reports whether this process has all these capabilities.
func may(o Options, capabilities ...int) bool {
	text, err := os.ReadFile(filepath.Join(o.Root, "/proc/self/status"))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err != nil || !slices.ContainsFunc(capabilities, func(c int) bool { return caps>>uint(c)&1 == 0 })
		}
	}
	return true
}

// accounts returns the ids of the accounts in /etc/passwd and /etc/group.
func accounts(o Options) []span {
	var out []span
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		text, err := os.ReadFile(filepath.Join(o.Root, file))
		if err != nil {
			continue // no accounts file, as in some images
		}
		for line := range strings.Lines(string(text)) {
			if parts := strings.SplitN(line, ":", 4); len(parts) > 3 {
				if id, err := strconv.ParseUint(parts[2], 10, 32); err == nil {
					out = append(out, span{int64(id), int64(id) + 1})
				}
			}
		}
	}
	return merge(out)
}

// userName returns the user's name, which may have subordinate ids; "" if there is none.
func userName(o Options, uid int) string {
	text, err := os.ReadFile(filepath.Join(o.Root, "/etc/passwd"))
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if parts := strings.SplitN(line, ":", 4); len(parts) > 3 && parts[2] == strconv.Itoa(uid) {
				return parts[0]
			}
		}
	}
	if o.Root == "" {
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
			return u.Username
		}
	}
	return ""
}

// openDir opens the folder of the locks, makes a missing one, and refuses one that another user can write to.
func (p *Pool) openDir() error {
	parent := filepath.Dir(p.dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, dir := range []string{parent, p.dir} {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: dir, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			return fmt.Errorf("%s must be your own folder, and not writable for others", dir)
		}
	}
	return nil
}
