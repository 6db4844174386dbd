package memory_test

import (
	"testing"

	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
	"github.com/belljar/belljar/internal/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Options{Open: func(*testing.T) store.Store { return memory.New() }})
}
