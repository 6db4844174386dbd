package api

import (
	"errors"
	"testing"

	"github.com/belljar/belljar"
)

func TestDrain(t *testing.T) {
	t.Parallel()
	d := NewDrain()
	leave, err := d.Enter()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Closing().Err(); err != nil {
		t.Errorf("it closes before Close: %v", err)
	}
	closed := make(chan struct{}, 2)
	for range cap(closed) {
		go func() {
			d.Close()
			closed <- struct{}{}
		}()
	}
	<-d.Closing().Done()
	var e *belljar.Error
	if _, err := d.Enter(); !errors.As(err, &e) || e.Code != belljar.CodeRuntimeUnavailable || e.Details["retry_after_sec"] != 5 {
		t.Errorf("a closing door let one in: %v", err)
	}
	select {
	case <-closed:
		t.Error("Close did not wait for what is open")
	default:
	}
	leave()
	for range cap(closed) {
		<-closed
	}
}
