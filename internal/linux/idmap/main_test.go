//go:build linux

package idmap

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// This binary, started again, is the other process in the tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-other" {
		if err := other(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func other(what string, args []string) error {
	switch what {
	case "claim": // claim in a folder, print the base, hold the claim until standard input ends
		p, err := Discover(Options{Dir: args[0]})
		if err != nil {
			return err
		}
		for range 20 {
			r, err := p.Claim()
			if err != nil {
				return err
			}
			defer r.Close()
			fmt.Println(r.Base())
		}
		os.Stdin.Read(make([]byte, 1))
		return nil
	case "rootless": // claim as this user, and print the view of a namespace with the range
		p, err := Discover(Options{Dir: args[0]})
		if err != nil {
			return err
		}
		r, err := p.Claim()
		if err != nil {
			return err
		}
		defer r.Release()
		view, err := look(r)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(report{p.Mode, p.Slots, p.Hint, r.Base(), r.Shared, view})
	case "private": // become a user in a mount namespace with other accounts: args are passwd, subuid, then the command
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		for target, source := range map[string]string{"/etc/passwd": args[0], "/etc/subuid": args[1], "/etc/subgid": args[1]} {
			if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
				return fmt.Errorf("bind %s: %w", target, err)
			}
		}
		c := exec.Command(os.Args[0], append([]string{"-other"}, args[2:]...)...)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4242, Gid: 4242}, Pdeathsig: syscall.SIGKILL}
		return c.Run()
	}
	return fmt.Errorf("what is %q?", what)
}

type report struct {
	Mode   Mode
	Slots  int
	Hint   string
	Base   int
	Shared bool
	View   view
}

// view is a user namespace seen from inside.
type view struct{ UIDMap, GIDMap, Setgroups string }

// look maps a range in a real user namespace.
func look(r *Range) (view, error) {
	c := exec.Command("/bin/sh", "-c", `echo; read go; for f in uid_map gid_map setgroups; do tr -s ' \n' ' ;' </proc/self/$f; echo; done`)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL}
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		return view{}, err
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return view{}, err
	}
	if err := c.Start(); err != nil {
		return view{}, err
	}
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	writeErr := r.Write(c.Process.Pid)
	fmt.Fprintln(stdin, "go")
	var v view
	for _, field := range []*string{&v.UIDMap, &v.GIDMap, &v.Setgroups} {
		lines.Scan()
		*field = lines.Text()
	}
	if err := c.Wait(); err != nil && writeErr == nil {
		return v, err
	}
	return v, writeErr
}
