package dir

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// TestWriter is the process that TestPlainKilled kills. It appends frames as fast as it can and prints the seq of each
// stored frame.
func TestWriter(t *testing.T) {
	path := os.Getenv("LOGBOOK_WRITER")
	if path == "" {
		t.Skip("run by TestPlainKilled")
	}
	log := must(must(Open(Options{Path: path})).Open("run"))
	for {
		seq := log.Last() + 1
		output := bytes.Repeat([]byte(strconv.FormatUint(seq, 10)+" "), int(seq*seq%2000))
		check(t, log.Append(belljar.Frame{Type: belljar.FrameStdout, Output: output}))
		fmt.Println("kept", seq)
	}
}

// Appended frames survive a kill of the process, and the next process continues the log.
func TestPlainKilled(t *testing.T) {
	book := openBook(t, t.TempDir())
	_ = must(book.Create("run"))
	check(t, book.Close())
	kept := uint64(0)
	for round := range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWriter$")
		cmd.Env = append(os.Environ(), "LOGBOOK_WRITER="+book.path)
		out := must(cmd.StdoutPipe())
		check(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for target := kept + uint64(37*round+5); lines.Scan(); {
			number, ok := strings.CutPrefix(lines.Text(), "kept ")
			if !ok {
				continue
			}
			kept = must(strconv.ParseUint(number, 10, 64))
			if kept == target {
				check(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait()
		again := openBook(t, book.path)
		log := must(again.Open("run"))
		if log.Last() < kept {
			t.Fatalf("%d frames, %d were kept", log.Last(), kept)
		}
		kept = log.Last()
		n := uint64(0)
		for f, err := range log.Read(t.Context(), 1) {
			check(t, err)
			n++
			want := bytes.Repeat([]byte(strconv.FormatUint(n, 10)+" "), int(n*n%2000))
			if f.Seq != n || !bytes.Equal(f.Output, want) {
				t.Fatalf("frame %d differs", n)
			}
			if n == kept {
				break
			}
		}
		check(t, again.Close())
	}
	if kept < 100 {
		t.Errorf("only %d frames in all", kept)
	}
}
