//go:build linux

// Command probe is the attacker's tool of the security tests, for attacks that a shell cannot do. It runs inside a
// sandbox and tries one family of attacks. It prints each successful attack as a line that begins with BREACH, and then
// exits with status 1; it prints refused attacks with the way they were refused.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() { os.Exit(run(os.Args[1:])) }

// attacks are the subcommands.
func attacks() map[string]func(*report, []string) {
	return map[string]func(*report, []string){
		"addresses":   addresses,
		"agent":       agent,
		"alien":       alien,
		"alternate":   alternate,
		"backlog":     backlog,
		"become":      become,
		"bind":        bind,
		"brokered":    brokered,
		"buffers":     buffers,
		"burst":       burst,
		"clock":       clock,
		"crowd":       crowd,
		"datagrams":   datagrams,
		"corked":      corked,
		"descriptors": descriptors,
		"denied":      denied,
		"devices":     devices,
		"dial":        dial,
		"fds":         fds,
		"fill":        fill,
		"filters":     filters,
		"flood":       flood,
		"flush":       flush,
		"foreign":     foreign,
		"forge":       forge,
		"forged":      forged,
		"forkbomb":    forkbomb,
		"handles":     handles,
		"hoard":       hoard,
		"hold":        hold,
		"identity":    identity,
		"initexe":     initexe,
		"inodes":      inodes,
		"int80":       foreign32,
		"keep":        keep,
		"killall":     killall,
		"limits":      limits,
		"lock":        lock,
		"locks":       locks,
		"marks":       marks,
		"memory":      memory,
		"mounts":      mounts,
		"names":       names,
		"namespaces":  namespaces,
		"netlink":     netlink,
		"narrowed":    narrowed,
		"nested":      nested,
		"netlinks":    netlinks,
		"await":       await,
		"notify":      notify,
		"options":     options,
		"printed":     printed,
		"queued":      queued,
		"priority":    priority,
		"processes":   processes,
		"random":      random,
		"reach":       reach,
		"rebound":     rebound,
		"remount":     remount,
		"requests":    requests,
		"resolve":     resolve,
		"reuse":       reuse,
		"servers":     servers,
		"slow":        slow,
		"spellings":   spellings,
		"settle":      settle,
		"sockets":     sockets,
		"dodge":       dodge,
		"spin":        spin,
		"survive":     survive,
		"swap":        swap,
		"take":        take,
		"terminal":    terminal,
		"terminals":   terminals,
		"tunnel":      tunnel,
		"uring":       uring,
		"use":         use,
		"writable":    writable,
		"x32":         foreignX32,
		"zombies":     zombies,
	}
}

func run(args []string) int {
	all := attacks()
	if len(args) == 0 || all[args[0]] == nil {
		fmt.Fprintf(os.Stderr, "usage: probe %s\n", strings.Join(slices.Sorted(maps.Keys(all)), "|"))
		return 2
	}
	var r report
	all[args[0]](&r, args[1:])
	if r.breaches > 0 {
		return 1
	}
	return 0
}

// ownKernel means that the sandbox has a kernel in user space.
func ownKernel() bool { return os.Getenv("LANE_RUNTIME") == "gvisor" }

// report counts the successful attacks.
type report struct{ breaches int }

// breach reports that an attack worked, or that a control did not.
func (r *report) breach(format string, args ...any) {
	r.breaches++
	fmt.Printf("BREACH: "+format+"\n", args...)
}

// refused checks the result of an attack: err must be one of allowed or, if none is given, any error.
func (r *report) refused(what string, err error, allowed ...error) {
	if err == nil {
		r.breach("%s went through", what)
		return
	}
	for _, a := range allowed {
		if err == a {
			fmt.Printf("%s: %v\n", what, err)
			return
		}
	}
	if len(allowed) > 0 {
		r.breach("%s: %v, must be %v", what, err, allowed)
		return
	}
	fmt.Printf("%s: %v\n", what, err)
}

// works is a control: a harmless operation of the same family must succeed, or the attack proves nothing.
func (r *report) works(what string, err error) {
	if err != nil {
		r.breach("control: %s: %v", what, err)
		return
	}
	fmt.Printf("%s: ok\n", what)
}
