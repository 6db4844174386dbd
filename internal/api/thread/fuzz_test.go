package thread_test

import (
	"net/http"
	"testing"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/thread"
	"github.com/belljar/belljar/test/apitest"
)

// whole returns the door with an engine that runs nothing, and all routes.
func whole(f *testing.F) (http.Handler, []apitest.Route) {
	f.Helper()
	guard, err := thread.NewGuard(nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	door, err := thread.New(thread.Options{Engine: apitest.Still{}, Auth: apitest.Callers(), Guard: guard, Image: "host", TempDir: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	const upload = "--x\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\n" + apitest.ID +
		"\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\ntext\r\n--x--\r\n"
	return apitest.Handler(f, api.EdgeOptions{}, door), []apitest.Route{
		{Method: "POST", Path: "/thread/create_session", Body: `{"user_id": "u", "thread_id": "t", "timeout_minutes": 5}`},
		{Method: "GET", Path: "/thread/get_session"},
		{Method: "POST", Path: "/thread/execute", Body: `{"session_id": "` + apitest.ID + `", "command": "ls -la | wc -l", "timeout": 5}`},
		{Method: "POST", Path: "/thread/upload_file", Body: upload},
		{Method: "POST", Path: "/thread/download_file", Body: `{"session_id": "` + apitest.ID + `", "filename": "a.txt"}`},
		{Method: "GET", Path: "/thread/list_files"},
		{Method: "POST", Path: "/thread/cleanup", Body: `{"session_id": "` + apitest.ID + `"}`},
		{Method: "GET", Path: "/thread/health"},
	}
}

func FuzzQuery(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzQuery(f, h, routes, "session_id="+apitest.ID, "thread_id=t")
}

func FuzzHeader(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzHeader(f, h, routes, "multipart/form-data; boundary=x")
}

func FuzzBody(f *testing.F) {
	h, routes := whole(f)
	apitest.FuzzBody(f, h, routes, `{"session_id": "`+apitest.ID+`", "command": "rm -rf /"}`)
}
