//go:build linux

package shell_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// A large file is streamed: only pieces of it are in memory.
func TestReadTakesLittleMemory(t *testing.T) {
	w := newWorld(t)
	const size = 4 << 20
	session := w.open()
	content := strings.Repeat("x", size)
	body, err := json.Marshal(map[string]string{"path": "big", "text": content})
	if err != nil {
		t.Fatal(err)
	}
	w.ask(200, "POST", session+"/fs/write", string(body))

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp, err := w.client.Do(w.request("alice", "GET", session+"/fs/read?path=big&max_bytes=33554432", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	runtime.ReadMemStats(&after)
	if want := base64.StdEncoding.EncodedLen(size); err != nil || resp.StatusCode != http.StatusOK || n < int64(want) {
		t.Fatalf("%d, %d bytes, %v", resp.StatusCode, n, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > size {
		t.Errorf("it took %d MiB of memory for %d", took>>20, size>>20)
	}
	for limit, want := range map[string]string{
		"3": `{"content_base64":"eHh4","truncated":true}`, "33554432": `","truncated":false}`,
	} {
		if got := w.ask(200, "GET", session+"/fs/read?path=big&max_bytes="+limit, ""); !strings.HasSuffix(got.raw, want+"\n") {
			t.Errorf("%s: …%s", limit, got.raw[max(0, len(got.raw)-80):])
		}
	}
}

// A list of files, and the output of a command whose request is repeated, share memory with the user's other answers before they are read.
func TestAnswersShareMemory(t *testing.T) {
	w := newWorld(t)
	session, key := w.open(), []string{"Idempotency-Key", "k"}
	cmd := `{"cmd": "for i in $(seq 500); do echo 0123456789; done"}`
	w.ask(200, "POST", session+"/exec", cmd, key...)
	for _, free := range []int64{4 << 20, 20 << 10} {
		release, err := w.bodies.Take(t.Context(), "alice", 32<<20-free)
		if err != nil {
			t.Fatal(err)
		}
		want := 200
		if free < 1<<20 {
			want = 429
		}
		w.ask(want, "GET", session+"/fs/list?recursive=true", "")
		w.ask(want, "POST", session+"/exec", cmd, key...)
		release()
		w.ask(200, "GET", session+"/fs/list?recursive=true&limit=10000", "")
	}
}
