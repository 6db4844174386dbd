package fault

import "errors"

// Why a run or a session is stopped before it ends by itself: causes of contexts.
var (
	ErrCanceled       = errors.New("canceled by user")
	ErrShutdown       = errors.New("belljar is shutting down")
	ErrStartupTimeout = errors.New("startup timeout")
	ErrQueueTTL       = errors.New("waited too long for its turn")
	// ErrDetached says that what runs in a session is left running, for the next process to reattach to.
	ErrDetached = errors.New("left to the next belljar")
)
