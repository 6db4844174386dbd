package cgroup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMounts(t *testing.T) {
	text := `22 1 8:1 / / rw - ext4 /dev/sda1 rw
31 23 0:28 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
35 31 0:32 /outer /sys/fs/cgroup/mem\040ory rw,relatime shared:10 master:1 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified ro,relatime - cgroup2 cgroup2 rw,nsdelegate
29 31 0:38 /.. /sys/fs/cgroup/again rw,relatime - cgroup2 cgroup2 rw
42 29 0:38 / /sys/fs/cgroup/again rw,relatime - cgroup2 cgroup2 rw
nonsense
36 31 0:33 / /x rw -
`
	want := []mount{
		{version: 1, root: "/outer", point: "/sys/fs/cgroup/mem ory", controllers: []string{"rw", "memory"}},
		{version: 2, root: "/", point: "/sys/fs/cgroup/unified", readOnly: true},
		{version: 2, root: "/", point: "/sys/fs/cgroup/again"},
	}
	if diff := cmp.Diff(want, parseMounts(text), cmp.AllowUnexported(mount{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOwnFolder(t *testing.T) {
	own := parseOwn("12:cpu,cpuacct:/a:b\n1:name=systemd:/x\n0::/us\nrubbish\n")
	if diff := cmp.Diff(map[string]string{"cpu": "/a:b", "cpuacct": "/a:b", "name=systemd": "/x", "": "/us"}, own); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, tt := range []struct{ root, own, want string }{
		{"/", "/a/b", "/m/a/b"},
		{"/", "/", "/m"},
		{"/a", "/a/b", "/m/b"},
		{"/a", "/a", "/m"},
		{"/a", "/ab", "/m"},     // another folder with the same prefix
		{"/", "/../b", "/m"},    // outside our cgroup namespace
		{"/", "/..b", "/m/..b"}, // an unusual name
	} {
		if got := (mount{root: tt.root, point: "/m"}).folder(tt.own); got != tt.want {
			t.Errorf("%s in a mount of %s is %s, want %s", tt.own, tt.root, got, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`35 31 0:32 /o /m\040 rw - cgroup cgroup rw,memory`+"\n", "4:memory:/a\n")
	f.Add(`1 1 1 / \777\04 ro - cgroup2 x y`, "0::/../..")
	f.Fuzz(func(t *testing.T, mounts, own string) {
		ours := parseOwn(own)
		for _, m := range parseMounts(mounts) {
			if m.version != 1 && m.version != 2 {
				t.Errorf("version %d", m.version)
			}
			m.point = "/m"
			for _, dir := range ours {
				if got := m.folder(dir); got != "/m" && !strings.HasPrefix(got, "/m/") && strings.HasPrefix(dir, "/") {
					t.Errorf("%q leads out of the mount: %q", dir, got)
				}
			}
		}
	})
}
