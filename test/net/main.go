// Command net is a program with common network operations, for tests to run inside sandboxes. It prints one line for each
// operation: the result, and the time in milliseconds.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: net lookup|talk|wait|many|stream|listen|datagram|echo|source|sink|connects|queries ARGS")
		os.Exit(2)
	}
	began := time.Now()
	line, err := run(os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		line = "error " + short(err)
	}
	fmt.Printf("%s in %d ms\n", line, time.Since(began).Milliseconds())
}

func run(what, at string, args []string) (string, error) {
	number := func(i int) int {
		if i >= len(args) {
			return 1
		}
		n, _ := strconv.Atoi(args[i])
		return max(n, 1)
	}
	switch what {
	case "lookup":
		list, err := net.DefaultResolver.LookupHost(context.Background(), at)
		slices.Sort(list)
		return strings.Join(list, " "), err
	case "talk":
		return talk(at)
	case "wait":
		return wait(at)
	case "many":
		return many(at, number(0))
	case "stream":
		return stream(at, int64(number(0)))
	case "listen":
		return listen(at)
	case "datagram":
		return datagram(at)
	case "echo", "source":
		return serve(what, at)
	case "sink":
		return sink(at, int64(number(0)))
	case "connects":
		return connects(at, number(0))
	case "queries":
		return queries(at, number(0))
	}
	return "", errors.New("unknown command")
}

// short returns the reason in an error.
func short(err error) string {
	var dns *net.DNSError
	var errno syscall.Errno
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.As(err, &dns) && dns.IsTimeout:
		return "timeout"
	case errors.As(err, &errno):
		return errno.Error()
	}
	return err.Error()
}

// talk sends its standard input and returns the reply.
func talk(at string) (string, error) {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.Copy(c, os.Stdin); err != nil {
		return "", err
	}
	_ = c.(*net.TCPConn).CloseWrite() // fails after a reset, which reading reports
	reply, err := io.ReadAll(c)
	return fmt.Sprintf("%q", reply), err
}

// wait reads until the end.
func wait(at string) (string, error) {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return "", err
	}
	defer c.Close()
	reply, err := io.ReadAll(c)
	return fmt.Sprintf("%q", reply), err
}

// many exchanges bytes over n connections at the same time.
func many(at string, n int) (string, error) {
	var all sync.WaitGroup
	fail := make(chan error, n)
	open := make(chan struct{})
	for i := range n {
		c, err := net.Dial("tcp", at)
		if err != nil {
			return "", fmt.Errorf("connection %d: %w", i, err)
		}
		all.Go(func() {
			defer c.Close()
			<-open
			want := fmt.Sprintf("this is number %d\n", i)
			if _, err := io.WriteString(c, want); err != nil {
				fail <- err
				return
			}
			got, err := bufio.NewReader(c).ReadString('\n')
			if err == nil && got != want {
				err = fmt.Errorf("%q instead of %q", got, want)
			}
			if err != nil {
				fail <- err
			}
		})
	}
	close(open)
	all.Wait()
	select {
	case err := <-fail:
		return "", err
	default:
		return fmt.Sprint(n, " connections"), nil
	}
}

// stream sends n random bytes while it receives, and returns the digests of both.
func stream(at string, n int64) (string, error) {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return "", err
	}
	defer c.Close()
	sent, received := sha256.New(), sha256.New()
	fail := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.MultiWriter(c, sent), io.LimitReader(rand.NewChaCha8([32]byte{1}), n))
		if err == nil {
			err = c.(*net.TCPConn).CloseWrite()
		}
		fail <- err
	}()
	got, err := io.Copy(received, c)
	if err := errors.Join(err, <-fail); err != nil {
		return "", err
	}
	return fmt.Sprintf("sent %x received %d %x", sent.Sum(nil), got, received.Sum(nil)), nil
}

// listen echoes one connection until its end, and adds a word.
func listen(at string) (string, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return "", err
	}
	fmt.Println("listening")
	c, err := l.Accept()
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.Copy(c, c); err != nil {
		return "", err
	}
	_, err = io.WriteString(c, "goodbye")
	return "served", err
}

// datagram sends a datagram and waits for a reply.
func datagram(at string) (string, error) {
	c, err := net.Dial("udp", at)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		return "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err = c.Read(make([]byte, 10))
	return "reply", err
}

// serve serves connections until it is killed: it echoes, or sends without end.
func serve(what, at string) (string, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return "", err
	}
	fmt.Println("listening")
	for {
		c, err := l.Accept()
		if err != nil {
			return "", err
		}
		go func() {
			defer c.Close()
			if what == "echo" {
				_, _ = io.Copy(c, c)
				return
			}
			buf := make([]byte, 256<<10)
			for {
				if _, err := c.Write(buf); err != nil {
					return
				}
			}
		}()
	}
}

// sink reads n bytes and returns the millions of bytes per second.
func sink(at string, n int64) (string, error) {
	began := time.Now()
	c, err := net.Dial("tcp", at)
	if err != nil {
		return "", err
	}
	defer c.Close()
	buf := make([]byte, 256<<10)
	for left := n; left > 0; {
		m, err := c.Read(buf)
		if err != nil {
			return "", err
		}
		left -= int64(m)
	}
	return fmt.Sprintf("%.0f MB/s", float64(n)/1e6/time.Since(began).Seconds()), nil
}

// middle returns the median and the 99th percentile.
func middle(took []time.Duration) string {
	slices.Sort(took)
	return fmt.Sprintf("p50 %d us p99 %d us", took[len(took)/2].Microseconds(), took[len(took)*99/100].Microseconds())
}

// connects measures n connections with one byte in each direction.
func connects(at string, n int) (string, error) {
	var took []time.Duration
	for range n {
		began := time.Now()
		c, err := net.Dial("tcp", at)
		if err != nil {
			return "", err
		}
		b := []byte{1}
		if _, err = c.Write(b); err == nil {
			_, err = io.ReadFull(c, b)
		}
		c.Close()
		if err != nil {
			return "", err
		}
		took = append(took, time.Since(began))
	}
	return middle(took), nil
}

// queries measures n queries for an address.
func queries(name string, n int) (string, error) {
	r := net.Resolver{PreferGo: true}
	var took []time.Duration
	for range n {
		began := time.Now()
		if _, err := r.LookupNetIP(context.Background(), "ip4", name); err != nil {
			return "", err
		}
		took = append(took, time.Since(began))
	}
	return middle(took), nil
}
