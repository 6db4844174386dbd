package registry

import (
	"context"
	"errors"
	"fmt"
	"github.com/belljar/belljar/internal/image/manifest"
	"io"
	"net/http"
	"time"
)

// Blob reads the data of a descriptor, up to its size, unverified. If the connection breaks, the download resumes
// there.
func (r *Repository) Blob(ctx context.Context, d manifest.Descriptor) io.ReadCloser {
	return &blob{ctx: ctx, from: r, d: d, pause: firstPause}
}

// blob is a download.
type blob struct {
	ctx   context.Context // the pull's context
	from  *Repository
	d     manifest.Descriptor
	body  io.ReadCloser
	at    int64
	tried int // tries since the last progress
	pause time.Duration
	came  int64 // bytes since the last try
	again bool  // the blob restarted from its beginning, since the registry does not support ranges
}

// leastProgress is how many bytes must arrive after a failure to reset the number of tries.
const leastProgress = 1 << 20

func (b *blob) Read(p []byte) (int, error) {
	for {
		if b.at == b.d.Size {
			return 0, io.EOF
		}
		if b.body == nil {
			if err := b.open(); err != nil {
				return 0, err
			}
		}
		n, err := b.body.Read(p[:min(int64(len(p)), b.d.Size-b.at)])
		b.at += int64(n)
		b.came += int64(n)
		if n > 0 {
			return n, nil // the next read returns the error
		}
		if err != nil {
			_ = b.Close()
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			if err := b.retry(err); err != nil {
				return 0, err
			}
		}
	}
}

// open requests the missing part.
func (b *blob) open() error {
	for {
		resp, err := b.from.get(b.ctx, "blobs", b.d.Digest, "", b.at)
		if err == nil {
			if err = b.take(resp); err == nil {
				return nil
			}
			_ = resp.Body.Close()
		}
		if err := b.retry(err); err != nil {
			return err
		}
	}
}

// take starts reading a response.
func (b *blob) take(resp *http.Response) error {
	if resp.StatusCode == http.StatusPartialContent {
		var first int64
		if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &first); err != nil || first != b.at {
			return b.from.unavailable(fmt.Sprintf("the registry has sent another part of %s than was requested", b.d.Digest), nil)
		}
		b.body = resp.Body
		return nil
	}
	if resp.ContentLength >= 0 && resp.ContentLength != b.d.Size {
		return b.from.unavailable(fmt.Sprintf("the registry has %d bytes for %s, which has %d", resp.ContentLength, b.d.Digest, b.d.Size), nil)
	}
	b.again = b.at > 0
	if _, err := io.CopyN(io.Discard, resp.Body, b.at); err != nil { // the registry does not support ranges: skip the first part
		return err
	}
	b.body = resp.Body
	return nil
}

// retry decides after a failure whether to try again, and waits before that.
func (b *blob) retry(err error) error {
	if b.came >= leastProgress && !b.again {
		b.tried, b.pause = 0, firstPause
	}
	b.came = 0
	if b.tried++; b.tried >= tries || !passing(err) || b.ctx.Err() != nil {
		return b.from.fail(b.ctx, err)
	}
	err = sleep(b.ctx, b.pause)
	b.pause *= 2
	return err
}

func (b *blob) Close() error {
	if b.body == nil {
		return nil
	}
	err := b.body.Close()
	b.body = nil
	return err
}
