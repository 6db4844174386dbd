package layer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/image/layer"
)

// gone checks that name does not exist.
func gone(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Lstat(name); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", name, err)
	}
}

func TestRemove(t *testing.T) {
	top := folder(t)
	outside := filepath.Join(top, "outside")
	if err := errors.Join(os.WriteFile(outside, []byte("x"), 0o640), os.Chmod(outside, 0o640)); err != nil {
		t.Fatal(err)
	}
	tree := below(t, top, "tree")
	for _, d := range []string{"closed", "closed/below", "none", ".lifted-1"} {
		below(t, tree, d)
	}
	for name, to := range map[string]string{"l": "../outside", "closed/l": "/etc", "closed/below/l": "../../../"} {
		if err := os.Symlink(to, filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(outside, filepath.Join(tree, "closed/hard")); err != nil {
		t.Fatal(err)
	}
	for d, mode := range map[string]os.FileMode{"closed/below": 0, "closed": 0o500, "none": 0} {
		if err := os.Chmod(filepath.Join(tree, d), mode); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink("tree", link); err != nil {
		t.Fatal(err)
	}
	if err := layer.Remove(link); err != nil {
		t.Fatal(err)
	}
	gone(t, link)
	if _, err := os.Stat(filepath.Join(tree, "none")); err != nil {
		t.Fatal("a link was followed")
	}
	if err := layer.Remove(tree); err != nil {
		t.Fatal(err)
	}
	gone(t, tree)
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	for _, name := range []string{tree, filepath.Join(tree, "x"), outside} {
		if err := layer.Remove(name); err != nil {
			t.Error(err)
		}
	}
	gone(t, outside)
}

// TestRemoveDeep tests a tree deeper than the longest path and than the number of open files.
func TestRemoveDeep(t *testing.T) {
	top := below(t, folder(t), "top")
	fd, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	const levels = 5000
	for i := range levels {
		name := "folder" + strconv.Itoa(i)
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Symlinkat("/etc", fd, "link"); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 { // closed folders have to be opened and lifted
			if err := unix.Fchmod(fd, 0o100); err != nil {
				t.Fatal(err)
			}
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	if err := layer.Remove(top); err != nil {
		t.Fatal(err)
	}
	gone(t, top)
}

func TestRemoveMany(t *testing.T) {
	top := below(t, folder(t), "top")
	for i := range 2000 {
		if err := os.WriteFile(filepath.Join(top, "a file with a name that is long enough "+strconv.Itoa(i)), nil, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if err := layer.Remove(top); err != nil {
		t.Fatal(err)
	}
	gone(t, top)
}
