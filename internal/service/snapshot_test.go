//go:build linux

package service_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
)

// workspaceOf creates files of all kinds, in directories of all modes.
const workspaceOf = `set -e
mkdir -p d/e closed; echo text >d/e/file; : >empty; chmod 640 d/e/file
ln d/e/file 'further name'; ln -s d/e/file link; ln -s /usr/bin/env away; ln -s nowhere broken
printf x >"$(printf 'a\nb\\c\377')"; printf y >./-rf; printf z >"$(printf 'n%.0s' $(seq 255))"
truncate -s 3M hole; printf end >>hole
touch -d '2001-02-03 04:05:06.123456789' d/e/file d; touch -h -d '2001-02-03 04:05:06.5' link; touch -d @0 empty d/e; touch -h -d @0.000000005 broken
mkfifo pipe; echo s >closed/s; chmod 500 closed
`

// manifest describes all entries of a workspace, except special files, which snapshots omit.
const manifest = `find . -mindepth 1 -path ./.tmp -prune -o ! -type p -printf '%y %m %n %s %l ' \( -type l -o -type f -o -type d -printf '%T@ ' \) -printf '%p\0' | sed -z 's/^d \([0-9]*\) [0-9]* [0-9]* /d \1 /' | sort -z | sha256sum
find . -path ./.tmp -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum; [ $(stat -c %b hole) -lt 100 ]`

func (b *bench) snapshots() belljar.Snapshots { return b.service.As(service.Local()).Snapshots() }

// from opens a session that is made from a snapshot.
func (b *bench) from(id string) belljar.Session {
	b.t.Helper()
	made, err := b.service.As(service.Local()).Sessions().Create(b.context(), belljar.SessionRequest{
		SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host", Snapshot: id},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return made
}

func (b *bench) in(session, script string) result {
	b.t.Helper()
	r := b.run(belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.0", SessionID: session, Command: []string{"bash", "-c", script}}})
	if r.Phase != belljar.PhaseCompleted {
		b.t.Fatalf("%s: %+v\n%s%s", script, r.Run, r.stdout, r.stderr)
	}
	return r
}

func (b *bench) kept() int64 {
	b.t.Helper()
	all, err := b.service.As(belljar.Caller{ID: "op", Role: belljar.RoleAdmin}).Admin().Usage(b.context(), 0)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, u := range all {
		if u.UserID == service.Local().ID {
			return u.ArtifactBytes
		}
	}
	return 0
}

func TestPlainSnapshots(t *testing.T) {
	t.Parallel()
	held, clock := newBlobs(), newHourglass()
	b := newBench(t, func(o *service.Options) {
		o.Blobs, o.Clock = held, clock
		o.Snapshots.TTL, o.Snapshots.PerUser, o.Snapshots.MB = time.Hour, 5, 8
	})
	ctx, all := b.context(), b.snapshots()
	x := b.open(func(r *belljar.SessionRequest) { r.TTLSec = 7200 })
	b.in(x.ID, workspaceOf)
	want := b.in(x.ID, manifest).stdout
	first, err := all.Make(ctx, x.ID, belljar.SnapshotSpec{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if first.Name != "one" || first.SessionID != x.ID || first.Kind != "workspace" || first.Files != 11 || first.Bytes != 3<<20+3+5+3+2 ||
		first.StoredBytes <= 0 || first.StoredBytes > 1<<16 || first.ExpiresAt == nil || !first.ExpiresAt.Equal(first.CreatedAt.Add(time.Hour)) {
		t.Errorf("%+v", first)
	}
	copied := b.from(first.ID)
	if got := b.in(copied.ID, manifest).stdout; got != want || copied.SnapshotDigest != first.Digest {
		t.Errorf("the copy differs: %s, %s; digest %s", got, want, copied.SnapshotDigest)
		t.Log(b.in(x.ID, "ls -laR").stdout, b.in(copied.ID, "ls -laR").stdout)
	}
	if r := b.in(copied.ID, "true"); r.SnapshotDigest != first.Digest {
		t.Errorf("a run in the copy has the digest %q", r.SnapshotDigest)
	}

	// The same files have the same digest, and are stored and counted once.
	second, err := all.Make(ctx, copied.ID, belljar.SnapshotSpec{})
	if err != nil || second.Digest != first.Digest || second.ID == first.ID || held.count() != 1 || b.kept() != first.StoredBytes {
		t.Errorf("%+v, %v; %d blobs, %d bytes kept", second, err, held.count(), b.kept())
	}
	page, err := all.List(ctx, belljar.SnapshotQuery{Limit: 1})
	if err != nil || page.Total != 2 || !page.HasMore || page.Items[0].ID != second.ID {
		t.Errorf("%+v, %v", page, err)
	}
	if err := all.Remove(ctx, first.ID); err != nil || held.count() != 1 || b.kept() != first.StoredBytes {
		t.Errorf("%v; %d blobs, %d bytes kept", err, held.count(), b.kept())
	}
	_, err = all.Get(ctx, first.ID)
	refusedAs(t, "removed", err, belljar.CodeNotFound)

	// Another user finds none.
	other := b.service.As(belljar.Caller{ID: "other"})
	_, err = other.Snapshots().Get(ctx, second.ID)
	refusedAs(t, "another user's", err, belljar.CodeNotFound)
	refusedAs(t, "another user's", other.Snapshots().Remove(ctx, second.ID), belljar.CodeNotFound)
	refusedAs(t, "another user's", other.Snapshots().Export(ctx, second.ID, io.Discard), belljar.CodeNotFound)
	_, err = other.Snapshots().Make(ctx, x.ID, belljar.SnapshotSpec{})
	refusedAs(t, "another user's session", err, belljar.CodeNotFound)
	_, err = other.Snapshots().Fork(ctx, x.ID, belljar.ForkSpec{})
	refusedAs(t, "another user's session", err, belljar.CodeNotFound)
	spec := belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host", Snapshot: second.ID}
	_, err = other.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: spec})
	refusedAs(t, "another user's", err, belljar.CodeNotFound)
	_, err = other.Runs().Start(ctx, with(shell("true"), func(s *belljar.RunSpec) { s.Snapshot = second.ID }))
	refusedAs(t, "another user's", err, belljar.CodeNotFound)
	if page, err := other.Snapshots().List(ctx, belljar.SnapshotQuery{}); err != nil || page.Total != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	_, err = b.Start(ctx, with(shell("true"), func(s *belljar.RunSpec) { s.Snapshot = second.ID }))
	refusedAs(t, "a runtime without layers", err, belljar.CodeRuntimeUnavailable)
	_, err = b.Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.0", SessionID: x.ID, Command: []string{"true"}, Snapshot: second.ID}})
	refusedAs(t, "a run in a session", err, belljar.CodeInvalidRequest)

	// An exported snapshot is the same after an import.
	var raw bytes.Buffer
	if err := all.Export(ctx, second.ID, &raw); err != nil || int64(raw.Len()) != second.ArchiveBytes {
		t.Fatalf("%d bytes, %v", raw.Len(), err)
	}
	var packed, zipped bytes.Buffer
	enc, _ := zstd.NewWriter(&packed)
	z := gzip.NewWriter(&zipped)
	_, _ = io.Copy(io.MultiWriter(enc, z), bytes.NewReader(raw.Bytes()))
	_, _ = enc.Close(), z.Close()
	for kind, body := range map[string][]byte{"tar": raw.Bytes(), "zstd": packed.Bytes(), "gzip": zipped.Bytes()} {
		got, err := all.Import(ctx, belljar.SnapshotSpec{Name: kind}, bytes.NewReader(body))
		if err != nil || got.Digest != second.Digest || got.Bytes != second.Bytes || got.SessionID != "" || held.count() != 1 {
			t.Errorf("%s: %+v, %v", kind, got, err)
			continue
		}
		if kind != "tar" {
			err = all.Remove(ctx, got.ID)
		}
		if err != nil {
			t.Error(err)
		}
	}

	// Damaged bytes are refused, and replaced by a snapshot of the same files.
	key := blob.Key{UserID: second.UserID, RunID: strings.TrimPrefix(second.Digest, "sha256:"), Path: "snapshot.tar.zst"}
	whole := held.held[key]
	for what, bytes := range map[string][]byte{"cut": whole[:len(whole)-9], "changed": slices.Concat(whole[:40], []byte{whole[40] ^ 1}, whole[41:]), "gone": nil} {
		if held.held[key] = bytes; bytes == nil {
			delete(held.held, key)
		}
		var out strings.Builder
		err := all.Export(ctx, second.ID, &out)
		if refusedAs(t, what, err, belljar.CodeConflict); out.Len() > 0 {
			t.Errorf("%s: %d bytes were exported", what, out.Len())
		}
		sessions := b.service.As(service.Local()).Sessions()
		before, _ := sessions.List(ctx, belljar.SessionQuery{})
		_, err = sessions.Create(ctx, belljar.SessionRequest{SessionSpec: spec})
		refusedAs(t, what, err, belljar.CodeConflict)
		if after, _ := sessions.List(ctx, belljar.SessionQuery{}); after.Total != before.Total {
			t.Errorf("%s: a session is left", what)
		}
	}
	again, err := all.Make(ctx, x.ID, belljar.SnapshotSpec{})
	if err != nil || all.Export(ctx, second.ID, io.Discard) != nil || b.kept() != first.StoredBytes {
		t.Errorf("%+v, %v; %d bytes kept", again, err, b.kept())
	}

	// Bounds on the snapshots of one user, the files of one snapshot, and its age.
	if _, err = all.Make(ctx, x.ID, belljar.SnapshotSpec{}); err != nil {
		t.Error(err)
	}
	stored := held.count()
	_, err = all.Import(ctx, belljar.SnapshotSpec{}, io.MultiReader(meanwhile(func() {
		if _, err := all.Make(ctx, x.ID, belljar.SnapshotSpec{}); err != nil {
			t.Error(err)
		}
	}), bytes.NewReader(make([]byte, 1024))))
	if refusedAs(t, "one too many at the same time", err, belljar.CodeQuotaExceeded); held.count() != stored {
		t.Errorf("%d blobs, and %d before", held.count(), stored)
	}
	_, err = all.Make(ctx, x.ID, belljar.SnapshotSpec{})
	refusedAs(t, "one too many", err, belljar.CodeQuotaExceeded)
	clock.pass(time.Hour + time.Second)
	if err := b.service.Sweep(ctx); err != nil || held.count() != 0 || b.kept() != 0 {
		t.Errorf("%v; %d blobs, %d bytes kept", err, held.count(), b.kept())
	}
	b.in(x.ID, "chmod 700 closed; rm -rf ./* || true; truncate -s 9M large")
	_, err = all.Make(ctx, x.ID, belljar.SnapshotSpec{})
	if refusedAs(t, "too large", err, belljar.CodeTooLarge); err != nil && !strings.Contains(err.(*belljar.Error).Hint, "at most 8 MiB and 100000 files") {
		t.Errorf("%+v", err)
	}
	b.in(x.ID, "rm large; echo hidden >hidden; chmod 0 hidden")
	if _, err = all.Make(ctx, x.ID, belljar.SnapshotSpec{}); err != nil && belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err) // as root, it can be read
	}
}

// meanwhile is an empty body that calls a function when it is read.
type meanwhile func()

func (m meanwhile) Read([]byte) (int, error) {
	m()
	return 0, io.EOF
}

// TestSnapshotFaults checks that a failed step leaves nothing over.
func TestSnapshotFaults(t *testing.T) {
	t.Parallel()
	held, records := newBlobs(), &brokenSnapshots{Store: memory.New()}
	b := newBench(t, func(o *service.Options) { o.Blobs, o.Store = held, records; o.Quota.ArtifactMB = 1 })
	ctx, all := b.context(), b.snapshots()
	x := b.open()
	b.in(x.ID, "echo text >file")
	held.fail = blob.ErrFull
	_, err := all.Make(ctx, x.ID, belljar.SnapshotSpec{})
	refusedAs(t, "full disk", err, belljar.CodeDiskFull)
	held.fail = nil
	for what, fault := range map[string]*error{"bytes that are not durable": &held.slip, "no record": &records.fail} {
		*fault = errors.New("broken")
		_, err = all.Make(ctx, x.ID, belljar.SnapshotSpec{})
		refusedAs(t, what, err, belljar.CodeInternal)
		*fault = nil
	}
	if held.count() != 0 || b.kept() != 0 {
		t.Errorf("%d blobs and %d bytes are left", held.count(), b.kept())
	}
	made, err := all.Make(ctx, x.ID, belljar.SnapshotSpec{})
	if err != nil {
		t.Fatal(err)
	}
	// A killed process leaves bytes without a record, before the record was written or after it was removed.
	orphan := blob.Key{UserID: made.UserID, RunID: strings.Repeat("a", 64), Path: "snapshot.tar.zst"}
	if _, err := held.Put(ctx, orphan, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if err := b.service.Sweep(ctx); err != nil || held.count() != 1 {
		t.Errorf("%v; %d blobs are left", err, held.count())
	}
	if err := all.Export(ctx, made.ID, io.Discard); err != nil {
		t.Errorf("after a sweep: %v", err)
	}
	b.in(x.ID, "head -c 2M /dev/urandom >noise")
	_, err = all.Make(ctx, x.ID, belljar.SnapshotSpec{})
	if refusedAs(t, "quota", err, belljar.CodeQuotaExceeded); held.count() != 1 || b.kept() != made.StoredBytes {
		t.Errorf("%d blobs and %d bytes are left", held.count(), b.kept())
	}
	records.look = func(ctx context.Context) error {
		if err := b.service.As(service.Local()).Sessions().Delete(b.context(), x.ID); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return ctx.Err()
	}
	_, err = all.Make(ctx, x.ID, belljar.SnapshotSpec{})
	refusedAs(t, "a session that ends meanwhile", err, belljar.CodeConflict)
}

// brokenSnapshots fails to record snapshots, or to find their digests.
type brokenSnapshots struct {
	store.Store
	fail error
	look func(ctx context.Context) error
}

func (s *brokenSnapshots) Snapshots() store.Snapshots { return brokenRecords{s.Store.Snapshots(), s} }

type brokenRecords struct {
	store.Snapshots
	of *brokenSnapshots
}

func (s brokenRecords) Has(ctx context.Context, user, digest string) (bool, error) {
	if s.of.look != nil {
		return false, s.of.look(ctx)
	}
	return s.Snapshots.Has(ctx, user, digest)
}

func (s brokenRecords) Insert(ctx context.Context, x belljar.Snapshot) error {
	if s.of.fail != nil {
		return s.of.fail
	}
	return s.Snapshots.Insert(ctx, x)
}

// TestImportRefuses checks that no imported archive creates a forbidden entry in a workspace.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	held := newBlobs()
	b := newBench(t, func(o *service.Options) { o.Blobs = held; o.Snapshots.MB, o.Snapshots.Files = 1, 50 })
	archive := func(list ...tar.Header) []byte {
		var raw bytes.Buffer
		w := tar.NewWriter(&raw)
		for _, h := range list {
			if h.Typeflag == 0 {
				h.Typeflag = tar.TypeReg
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(make([]byte, h.Size))
		}
		_ = w.Close()
		return raw.Bytes()
	}
	file := tar.Header{Name: "file", Size: 3}
	many := make([]tar.Header, 51)
	for i := range many {
		many[i].Name = strings.Repeat("x", i+1)
	}
	for what, c := range map[string]struct {
		raw  []byte
		want belljar.Code
	}{
		"traversal":         {archive(tar.Header{Name: "a/../../x"}), belljar.CodePathEscapes},
		"absolute":          {archive(tar.Header{Name: "/etc/x"}), belljar.CodePathEscapes},
		"device":            {archive(tar.Header{Name: "d", Typeflag: tar.TypeChar}), belljar.CodeInvalidRequest},
		"fifo":              {archive(tar.Header{Name: "p", Typeflag: tar.TypeFifo}), belljar.CodeInvalidRequest},
		"twice":             {archive(file, file), belljar.CodeInvalidRequest},
		"below a link":      {archive(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, tar.Header{Name: "l/x"}), belljar.CodeInvalidRequest},
		"below a file":      {archive(file, tar.Header{Name: "file/x"}), belljar.CodeInvalidRequest},
		"link over it":      {archive(tar.Header{Name: "d/x"}, tar.Header{Name: "d", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), belljar.CodeInvalidRequest},
		"link to later":     {archive(tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "file"}, file), belljar.CodeInvalidRequest},
		"link away":         {archive(file, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../file"}), belljar.CodeInvalidRequest},
		"link to a link":    {archive(tar.Header{Name: "s", Typeflag: tar.TypeSymlink, Linkname: "/x"}, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "s"}), belljar.CodeInvalidRequest},
		"too large":         {archive(tar.Header{Name: "big", Size: 1<<20 + 1}), belljar.CodeTooLarge},
		"too large in all":  {archive(tar.Header{Name: "a", Size: 1 << 19}, tar.Header{Name: "b", Size: 1<<19 + 1}), belljar.CodeTooLarge},
		"too many":          {archive(many...), belljar.CodeTooLarge},
		"too many implied":  {archive(tar.Header{Name: strings.Repeat("d/", 51) + "x"}), belljar.CodeTooLarge},
		"cut":               {archive(file)[:700], belljar.CodeInvalidRequest},
		"no archive":        {bytes.Repeat([]byte("no archive "), 100), belljar.CodeInvalidRequest},
		"empty":             {nil, belljar.CodeInvalidRequest},
		"more after it":     {append(archive(file), 'x'), belljar.CodeInvalidRequest},
		"bomb":              {bomb(t), belljar.CodeTooLarge},
		"bomb left out":     {archive(file, tar.Header{Name: ".tmp/big", Size: 2 << 20}), belljar.CodeTooLarge},
		"left out":          {archive(file, tar.Header{Name: ".tmp/small", Size: 1 << 20}), ""},
		"name with a break": {archive(tar.Header{Name: "a\nb"}), ""},
		"owner and setuid":  {archive(tar.Header{Name: "s", Mode: 0o6755, Uid: 0, Uname: "root"}), ""},
	} {
		got, err := b.snapshots().Import(b.context(), belljar.SnapshotSpec{}, bytes.NewReader(c.raw))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			} else if err := b.snapshots().Remove(b.context(), got.ID); err != nil {
				t.Error(err)
			}
			continue
		}
		refusedAs(t, what, err, c.want)
	}
	if held.count() != 0 {
		t.Errorf("%d blobs are left", held.count())
	}
	_, err := b.snapshots().Import(b.context(), belljar.SnapshotSpec{Name: strings.Repeat("n", 129)}, strings.NewReader(""))
	refusedAs(t, "name", err, belljar.CodeInvalidRequest)
}

// bomb returns a small archive that expands to a large size.
func bomb(t *testing.T) []byte {
	var raw bytes.Buffer
	enc, err := zstd.NewWriter(&raw)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(enc)
	_ = w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: 1 << 40})
	_, _ = w.Write(make([]byte, 8<<20))
	_ = enc.Close()
	return raw.Bytes()
}

func TestFork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, sessions := b.context(), b.service.As(service.Local()).Sessions()
	x, err := sessions.Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: "1.0", BaseImage: "host", Env: map[string]string{"GIVEN": "env", "GONE": "1", "INNER": "2"}, TTLSec: 600,
		Secrets: map[string]belljar.Secret{"PASSWORD": {Value: password}}, Scope: belljar.Scope{Namespace: "agent", ID: "7"}, Labels: map[string]string{"a": "b"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.in(x.ID, "echo text >file")
	plain, err := b.snapshots().Fork(ctx, x.ID, belljar.ForkSpec{})
	// Consistency is tested on runtimes with cgroups (test/e2e): otherwise it depends on how soon the end of all programs is detected.
	if err != nil || len(plain.Sessions) != 1 || plain.Shell {
		t.Fatalf("%+v, %v", plain, err)
	}
	script := `cd /tmp; plain=1; export EXPORTED="two words"; list=(a 'b c' $'d\ne'); declare -A map=([k]='v"$x' ["o'k"]=w); declare -i number=7
f() { echo "f of $1"; }; g() { echo '` + password + `'; }; leak='` + password + `'; leaks=(x 'y` + password + `'); IFS=:; odd=$'q\001\tz'; readonly fixed=9
unset GONE; export -n INNER; EPOCHS=4; TERM=vt100`
	b.run(inShell(x.ID, script)).want(t, belljar.PhaseCompleted, 0, "")
	made, err := b.snapshots().Fork(ctx, x.ID, belljar.ForkSpec{Count: 3})
	if err != nil || len(made.Sessions) != 3 || !made.Shell {
		t.Fatalf("%+v, %v", made, err)
	}
	slices.Sort(made.Omitted)
	if !slices.Equal(made.Omitted, []string{"g", "leak", "leaks"}) {
		t.Errorf("%q were left out", made.Omitted)
	}
	shows(t, "the answer", made)
	show := `pwd; echo "$plain|$EXPORTED|${list[2]}|${map[k]}|${map["o'k"]}|$GIVEN|$fixed|$leak|${leaks[1]}"; f 1; type -t g; printf '%q\n' "$IFS" "$odd"; number+=1; echo $number; sh -c 'echo $EXPORTED'; cat "$HOME/file" 2>/dev/null
echo "${GONE-unset} $INNER $(sh -c 'echo ${INNER-private}') $EPOCHS $TERM"`
	want := b.run(inShell(x.ID, strings.Replace(show, "|$leak|${leaks[1]}", "||", 1))).stdout
	if !strings.Contains(want, "\nunset 2 private 4 vt100\n") {
		t.Errorf("%q", want)
	}
	for i, s := range made.Sessions {
		if s.ScopeKey != "" || s.Labels["a"] != "b" || s.SnapshotDigest == "" || s.Cwd != "/tmp" || s.Runtime != x.Runtime || !s.ExpiresAt.After(s.CreatedAt.Add(500*time.Second)) {
			t.Errorf("%+v", s)
		}
		got := b.run(inShell(s.ID, show)).stdout
		if got != strings.Replace(want, "function\n", "", 1) {
			t.Errorf("copy %d: %q, want %q", i, got, want)
		}
		if r := b.in(s.ID, "cat file; ls /run/secrets/PASSWORD 2>/dev/null || true; echo "+s.ID+" >file"); r.stdout != "text\n" {
			t.Errorf("%q", r.stdout)
		}
	}
	if r := b.in(x.ID, "cat file"); r.stdout != "text\n" {
		t.Errorf("a copy has changed the session: %q", r.stdout)
	}
	busy := b.start(inShell(x.ID, "echo begun; read x </dev/zero; sleep 100"))
	b.waitFor(busy.ID, "begun")
	if made, err := b.snapshots().Fork(ctx, x.ID, belljar.ForkSpec{}); err != nil || made.Shell || made.Consistent {
		t.Errorf("%+v, %v", made, err)
	}
	if err := b.Cancel(ctx, busy.ID); err != nil {
		t.Error(err)
	}
	_, err = b.snapshots().Fork(ctx, x.ID, belljar.ForkSpec{Count: 33})
	refusedAs(t, "too many", err, belljar.CodeInvalidRequest)
}

// TestForkAllOrNone checks that no copies are left if one cannot be made.
func TestForkAllOrNone(t *testing.T) {
	t.Parallel()
	rt := &slowRuntime{}
	b := newBench(t, func(o *service.Options) {
		rt.Runtime = o.Runtimes[0]
		o.Runtimes, o.MaxSessions = []runtime.Runtime{rt}, 4
	})
	ctx, sessions := b.context(), b.service.As(service.Local()).Sessions()
	x := b.open()
	_, err := b.snapshots().Fork(ctx, x.ID, belljar.ForkSpec{Count: 8})
	refusedAs(t, "fork", err, belljar.CodeQuotaExceeded)
	asked := make(chan struct{})
	rt.set(func() { rt.asked = asked })
	forked := make(chan error)
	go func() {
		_, err := b.snapshots().Fork(ctx, x.ID, belljar.ForkSpec{})
		forked <- err
	}()
	<-asked
	if err := sessions.Delete(ctx, x.ID); err != nil {
		t.Error(err)
	}
	refusedAs(t, "fork of a session that ends meanwhile", <-forked, belljar.CodeConflict)
	page, err := sessions.List(ctx, belljar.SessionQuery{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range page.Items {
		if !s.State.Ended() {
			t.Errorf("%s is left, %s", s.ID, s.State)
		}
	}
	_, err = b.snapshots().Make(ctx, x.ID, belljar.SnapshotSpec{})
	refusedAs(t, "a session that has ended", err, belljar.CodeConflict)
}
