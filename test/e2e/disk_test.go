//go:build linux

package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver

	"github.com/belljar/belljar/test/need"
)

// query changes a database that no server uses.
func query(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

// smallDisk mounts a separate disk of size bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	need.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("belljar-test", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700,size="+size); err != nil {
		need.Missing(t, "a mount: %v", err)
	}
	t.Cleanup(func() {
		until(t, "the disk is unmounted", func() bool { return unix.Unmount(dir, 0) == nil }) // a killed process releases it with a delay
	})
	return dir
}

// fill uses all the space of a disk except left bytes, and returns a function that frees it.
func fill(t *testing.T, dir string, left int) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for piece := make([]byte, 64<<10); len(piece) > 0; {
		if _, err := f.Write(piece); err != nil {
			piece = piece[:len(piece)/2]
		}
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(max(0, info.Size()-int64(left)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// until polls until a condition is true.
func until(t *testing.T, what string, right func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for again := time.NewTicker(20 * time.Millisecond); !right(); {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// TestNoFilesLeft takes the last free file of the disk, which still has free bytes. The server is not ready, refuses runs and reports how
// to see the reason, and works again when files are free.
func TestNoFilesLeft(t *testing.T) {
	disk := smallDisk(t, "64m,nr_inodes=200")
	s := serve(t, filepath.Join(disk, "data"), "--set", "min_free_mb=1")
	others := filepath.Join(disk, "others")
	err := os.Mkdir(others, 0o700)
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(others, strconv.Itoa(i)), nil, 0o600)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	status, answer := s.ask(http.MethodPost, api+"/runs?wait=600s", oneShot("true"))
	if e, _ := answer["error"].(map[string]any); status != http.StatusInsufficientStorage || !strings.Contains(fmt.Sprint(e["hint"]), "df -i") {
		t.Errorf("a run: %d %v", status, answer)
	}
	if status, answer, err := s.try(http.MethodGet, "/readyz", nil); err != nil || status != http.StatusServiceUnavailable || !strings.Contains(fmt.Sprint(answer), "df -i") {
		t.Errorf("ready: %d %v %v", status, answer, err)
	}
	if err := os.RemoveAll(others); err != nil {
		t.Fatal(err)
	}
	if status, answer, err := s.try(http.MethodGet, "/readyz", nil); err != nil || status != http.StatusOK {
		t.Errorf("ready again: %d %v %v", status, answer, err)
	}
	if status, answer := s.ask(http.MethodPost, api+"/runs?wait=600s", oneShot("true")); answer["phase"] != "completed" {
		t.Errorf("a run again: %d %v", status, answer)
	}
}

// TestFullDisk fills the disk under a busy server. Data that cannot be stored is refused with 507 or reported as missing, reads succeed,
// and with free space everything works again without a restart.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, "12m")
	data := filepath.Join(disk, "data")
	s := serve(t, data, "--set", "min_free_mb=1", "--set", "end_sessions=true")
	refused := func(what string, status int, answer map[string]any) {
		t.Helper()
		e, _ := answer["error"].(map[string]any)
		if status != http.StatusInsufficientStorage || e["code"] != "disk_full" || e["hint"] == "" {
			t.Errorf("%s: %d %v", what, status, answer)
		}
	}
	start := func() (int, map[string]any) {
		return s.ask(http.MethodPost, api+"/runs?wait=600s", oneShot("echo fine"))
	}
	ready := func() int {
		status, _, err := s.try(http.MethodGet, "/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	_, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
	sessionID, _ := session["session_id"].(string)
	talker := oneShot("echo begun; while [ ! -e stop ]; do head -c 20000 /dev/zero; sleep 0.01; done; echo over >out; head -c 2000000 /dev/zero >big")
	talker["session_id"], talker["capture_patterns"] = sessionID, []string{"out", "big"}
	talker["resources"] = map[string]any{"log_bytes": 4 << 20} // otherwise it fills the disk by itself on a slow machine
	delete(talker, "base_image")
	_, under := s.ask(http.MethodPost, api+"/runs", talker)
	id, _ := under["id"].(string)
	until(t, "the run under way", func() bool { return strings.Contains(s.text(api+"/runs/"+id+"/logs"), "begun") })

	free := fill(t, disk, 256<<10)
	status, answer := start()
	refused("a run below the watermark", status, answer)
	status, answer = s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
	refused("a session below the watermark", status, answer)
	if ready() != http.StatusServiceUnavailable {
		t.Error("it says that it is ready")
	}
	free()

	free = fill(t, disk, 0)
	status, answer = s.ask(http.MethodPost, api+"/admin/tokens", map[string]any{"user_id": "bob"})
	refused("a key on the full disk", status, answer)
	if status, list := s.ask(http.MethodGet, api+"/runs", nil); status != http.StatusOK || list["total"] != 1.0 {
		t.Errorf("the list: %d %v", status, list)
	}
	if status, run := s.ask(http.MethodGet, api+"/runs/"+id, nil); status != http.StatusOK || run["phase"] != "running" {
		t.Errorf("the run under way: %d %v", status, run)
	}
	free()

	if status, run := start(); status != http.StatusOK || run["phase"] != "completed" || run["stdout"] != "fine\n" {
		t.Errorf("with room again: %d %v", status, run)
	}
	if ready() != http.StatusOK {
		t.Error("it does not say that it is ready again")
	}
	status, answer = s.ask(http.MethodPost, api+"/sessions/"+sessionID+"/files?path=stop", strings.NewReader("x"), "Content-Type: application/octet-stream")
	if status != http.StatusOK {
		t.Errorf("upload: %d %v", status, answer)
	}
	frames, err := s.frames(api+"/runs/"+id+"/logs?format=json&follow=true", nil)
	if err != nil {
		t.Error(err)
	}
	_, run := s.ask(http.MethodGet, api+"/runs/"+id, nil)
	if run["phase"] != "completed" {
		t.Errorf("the run that was under way: %v", run)
	}
	marked := false
	for _, f := range frames {
		marked = marked || f["type"] == "truncated" && f["reason"] == "disk_full"
	}
	if dropped := strings.Contains(fmt.Sprint(run["warnings"]), "disk is full"); dropped != marked {
		t.Errorf("marked %t, warnings %v", marked, run["warnings"])
	}
	if got, err := s.get(api + "/runs/" + id + "/artifacts/out"); err != nil || got != "over\n" {
		t.Errorf("its artifact: %q, %v", got, err)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}

// TestStartOnAFullDisk kills a server on a full disk, where it cannot record its work, and starts the next one there: it serves the
// existing data, continues active runs, and records the rest when there is space.
func TestStartOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, "12m")
	data := filepath.Join(disk, "data")
	s := serve(t, data, "--set", "min_free_mb=0")
	_, kept := s.ask(http.MethodPost, api+"/runs?wait=600s", oneShot("echo kept"))
	_, under := s.ask(http.MethodPost, api+"/runs", oneShot("echo up; sleep 1000"))
	id, _ := under["id"].(string)
	until(t, "the run under way", func() bool { return s.text(api+"/runs/"+id+"/logs") == "up\n" })
	free := fill(t, disk, 0)
	status, answer := s.ask(http.MethodPost, api+"/runs?wait=600s", oneShot("true"))
	if status != http.StatusInsufficientStorage {
		t.Errorf("a run on the full disk: %d %v", status, answer)
	}
	s.kill()

	s = serve(t, data, "--set", "min_free_mb=0")
	if _, run := s.ask(http.MethodGet, api+"/runs/"+kept["id"].(string), nil); run["phase"] != "completed" {
		t.Errorf("what was on record: %v", run)
	}
	if log := s.text(api + "/runs/" + kept["id"].(string) + "/logs"); log != "kept\n" {
		t.Errorf("its log: %q", log)
	}
	if _, run := s.ask(http.MethodGet, api+"/runs/"+id, nil); run["phase"] != "running" {
		t.Errorf("the run under way: %v", run)
	}
	free()
	if status, answer := s.ask(http.MethodPost, api+"/runs/"+id+"/cancel", nil); status/100 != 2 {
		t.Errorf("cancel it: %d %v", status, answer)
	}
	until(t, "the end of the run", func() bool {
		_, run := s.ask(http.MethodGet, api+"/runs/"+id, nil)
		return run["phase"] == "killed" && run["reason_code"] == "canceled_by_user"
	})
	if status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", oneShot("echo fine")); status != http.StatusOK || run["phase"] != "completed" {
		t.Errorf("with room again: %d %v", status, run)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}
