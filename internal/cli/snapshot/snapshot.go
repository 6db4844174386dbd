// Package snapshot implements the commands about snapshots.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// All returns all snapshots of the caller, each once: a new one shifts the pages.
func All(ctx context.Context, s belljar.Service) ([]belljar.Snapshot, error) {
	all, seen := []belljar.Snapshot{}, map[string]bool{}
	for offset := 0; ; offset += belljar.MaxPage {
		page, err := s.Snapshots().List(ctx, belljar.SnapshotQuery{Limit: belljar.MaxPage, Offset: offset})
		if err != nil {
			return nil, err
		}
		for _, x := range page.Items {
			if !seen[x.ID] {
				seen[x.ID] = true
				all = append(all, x)
			}
		}
		if !page.HasMore || len(page.Items) == 0 {
			return all, nil
		}
	}
}

// Find returns the id of the caller's snapshot with a unique name, or else with an id prefix; "" for "". It ignores the snapshots that hold a
// template's files, which have the template's name.
func Find(ctx context.Context, s belljar.Service, given string) (string, error) {
	if given == "" {
		return "", nil
	}
	all, err := All(ctx, s)
	if err != nil {
		return "", err
	}
	var ids, named []string
	for _, x := range all {
		ids = append(ids, x.ID)
		if x.Name == given && x.Kind != "template" {
			named = append(named, x.ID)
		}
	}
	switch len(named) {
	case 0:
		return ident.Find("snapshot", given, func(int) ([]string, bool, error) { return ids, false, nil })
	case 1:
		return named[0], nil
	}
	return "", &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%d snapshots have the name %q", len(named), given),
		Details: map[string]any{"name": given}, Hint: "give a whole id; belljar snapshot ls --json has them",
	}
}

// Table prints snapshots.
func Table(w io.Writer, all []belljar.Snapshot, now time.Time) error {
	var ids []string
	for _, x := range all {
		ids = append(ids, x.ID)
	}
	rows := [][]string{}
	for i, id := range ident.Short(ids) {
		x := all[i]
		rows = append(rows, []string{id, x.Kind, x.Name, show.Bytes(x.Bytes), strconv.Itoa(x.Files), show.RoughDuration(now.Sub(x.CreatedAt)) + " ago"})
	}
	return show.Table(w, "SNAPSHOT KIND NAME SIZE FILES MADE", rows)
}

// inconsistent is a note about files that were read while programs ran.
const inconsistent = "programs ran while the files were read: some may have changed in between"

// newShell is a note about copies without the state of the session's shell.
const newShell = "copies begin with a new shell: the session's was busy, or its state cannot be copied"

// summary describes a new snapshot.
func summary(made belljar.Snapshot) string {
	text := fmt.Sprintf("%d files, %s", made.Files, show.Bytes(made.Bytes))
	if made.ExpiresAt != nil {
		text += ", kept until " + made.ExpiresAt.Local().Format(time.DateTime)
	}
	return text
}

// ForkNotes returns the notes about new copies of the session with an id.
func ForkNotes(ctx context.Context, s belljar.Service, id string, made belljar.Fork) (notes []string) {
	if !made.Shell {
		if of, err := s.Sessions().Get(ctx, id); err == nil && of.Cwd != "" {
			notes = append(notes, newShell)
		}
	}
	if !made.Consistent {
		notes = append(notes, inconsistent)
	}
	for _, name := range made.Omitted {
		notes = append(notes, name+" of the shell was left out: it has the value of a secret")
	}
	return notes
}

// Export writes a snapshot to a new file, or to stdout if file is "". It removes an incomplete file.
func Export(ctx context.Context, s belljar.Service, given, file string, stdout io.Writer) error {
	id, err := Find(ctx, s, given)
	if err != nil {
		return err
	}
	if file == "" {
		if show.IsTerminal(stdout) {
			return mistake.New("--out FILE, or a pipe", "a tar archive does not belong on a terminal")
		}
		return s.Snapshots().Export(ctx, id, stdout)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return mistake.New("", "--out %s: %s", file, mistake.Reason(err))
	}
	ctx, stopped := interrupt.Context(ctx)
	if err = errors.Join(s.Snapshots().Export(ctx, id, f), f.Close()); err != nil {
		_ = os.Remove(file)
	}
	return stopped(err)
}

// Import makes a snapshot from a file; "-" is stdin.
func Import(ctx context.Context, s belljar.Service, spec belljar.SnapshotSpec, file string, stdin io.Reader) (belljar.Snapshot, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return belljar.Snapshot{}, mistake.New("", "%s: %s", file, mistake.Reason(err))
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return belljar.Snapshot{}, mistake.New("make an archive of it: tar -C "+show.Word(file)+" -cf FILE .", "%s is a folder", file)
		}
		from = f
	}
	if from == nil {
		return belljar.Snapshot{}, mistake.New("", "there is no standard input")
	}
	made, err := s.Snapshots().Import(ctx, spec, from)
	return made, field.InFlags(err)
}

// Print prints a snapshot's id, or the snapshot as JSON, unless err is set. Its size goes to aside, a warning about it to note.
func Print(w io.Writer, aside, note func(format string, args ...any), made belljar.Snapshot, json bool, err error) error {
	switch {
	case err != nil:
		return err
	case json:
		return show.JSON(w, made)
	}
	aside("%s", summary(made))
	if !made.Consistent {
		note("%s", inconsistent)
	}
	return show.Lines(w, []string{made.ID})
}

// Remove removes snapshots, and returns the failures.
func Remove(ctx context.Context, s belljar.Service, ids []string, json bool, w io.Writer) error {
	removed, err := mistake.Each(ids, func(given string) (string, error) {
		id, err := Find(ctx, s, given)
		if err == nil {
			err = s.Snapshots().Remove(ctx, id)
		}
		return id, err
	})
	if err == nil && json {
		return show.JSON(w, removed)
	}
	return err
}
