package rest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// FuzzUpload checks that an upload gives files with paths in the workspace and no more bytes than were sent, or fails
// as an invalid request.
func FuzzUpload(f *testing.F) {
	const boundary = "multipart/form-data; boundary=x"
	f.Add(boundary, "", "--x\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a/b.txt\"\r\n\r\nhello\r\n--x--\r\n")
	f.Add(boundary, "extract=false", "--x\r\nContent-Disposition: form-data; name=\"files[]\"; filename=\"a.tar\"\r\n\r\n\r\n--x\r\n\r\n--x--")
	f.Add(boundary, "", "--x\r\nContent-Disposition: form-data; name=files; filename*=UTF-8''..%2Fa\r\n\r\nhello\r\n--x--\r\n")
	f.Add("application/x-tar", "dir=a", "tar")
	f.Add("text/plain", "path=../a", "x")
	f.Add("application/zip", "path=a%00", "x")
	f.Add("multipart/form-data", "", "")
	f.Fuzz(func(t *testing.T, contentType, query, sent string) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", contentType)
		up, err := parseUpload(r, &source{in: strings.NewReader(sent), limit: 1 << 20})
		if err != nil {
			if code := belljar.CodeOf(err); code != belljar.CodeInvalidRequest {
				t.Fatalf("code %s: %v", code, err)
			}
			return
		}
		total := int64(0)
		for part, err := range up.Parts {
			if err == nil {
				var n int64
				n, err = io.Copy(io.Discard, part.Body)
				total += n
			}
			if err != nil {
				if code := belljar.CodeOf(err); code != belljar.CodeInvalidRequest {
					t.Fatalf("code %s: %v", code, err)
				}
				break
			}
			if part.Format == belljar.UploadFile {
				if clean, err := belljar.CleanPath(part.Name); err != nil || clean == "." {
					t.Fatalf("a file is called %q", part.Name)
				}
			}
		}
		if total > int64(len(sent)) {
			t.Fatalf("%d bytes of %d", total, len(sent))
		}
	})
}
