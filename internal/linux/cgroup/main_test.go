//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Small programs for the tests: this binary, started again inside a group.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-tiny" {
		os.Exit(tiny(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// threads makes the Go runtime keep n spare threads: it ends the program if it needs one and gets none.
func threads(n int) {
	var up, down sync.WaitGroup
	up.Add(n)
	for range n {
		down.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			up.Done()
			up.Wait()
		})
	}
	down.Wait()
}

func tiny(what string, args []string) int {
	n := 0
	if len(args) > 0 {
		n, _ = strconv.Atoi(args[0])
	}
	switch what {
	case "allocate", "hold": // touch n MiB, or enough to hold n MiB, and keep them until standard input ends
		if what == "hold" {
			status, _ := os.ReadFile("/proc/self/status")
			_, own, _ := strings.Cut(string(status), "RssAnon:")
			kib, _ := strconv.Atoi(strings.Fields(own)[0])
			n -= kib >> 10 // the race detector uses much memory
		}
		b, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON) // it shadows the heap
		if err != nil {
			panic(err)
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		fmt.Println("allocated")
		if what == "hold" {
			os.Stdin.Read(b[:1])
		}
	case "spin": // burn CPU for n ms of wall time
		for end := time.Now().Add(time.Duration(n) * time.Millisecond); time.Now().Before(end); {
		}
	case "fork", "forks": // start at most n sleeping children, print how many started, end them; forks waits for the end of standard input first
		threads(8)
		var started []*exec.Cmd
		for range n {
			c := exec.Command("/bin/sleep", "60")
			if c.Start() != nil {
				break
			}
			started = append(started, c)
		}
		fmt.Println(len(started))
		if what == "forks" {
			os.Stdin.Read(make([]byte, 1))
		}
		for _, c := range started {
			c.Process.Kill()
			c.Wait()
		}
	case "wait": // until standard input ends
		fmt.Println("ready")
		os.Stdin.Read(make([]byte, 1))
	case "nested": // like the program of a container or of a user: see what is available, and use it
		if err := nested(args[0]); err != nil {
			fmt.Println(err)
			return 1
		}
	default:
		return 2
	}
	return 0
}
