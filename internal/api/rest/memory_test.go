package rest_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/test/apitest"
)

// Lists and searches reserve memory neither while their session wakes nor while a slow client reads them.
func TestAnswersReserveMemoryBriefly(t *testing.T) {
	const fs = prefix + "/sessions/" + apitest.ID + "/fs/"
	apitest.CheckMemory(t, func(engine belljar.Engine, bodies *api.Shares) (apitest.Door, error) {
		return rest.New(rest.Options{Engine: engine, Auth: apitest.Callers(), Bodies: bodies})
	}, []apitest.Route{
		{Method: "POST", Path: fs + "list", Body: `{"path": "."}`}, {Method: "POST", Path: fs + "search", Body: `{"path": ".", "name": "a*"}`},
	}...)
}

// A list or search with invalid arguments does not wake its session.
func TestRefusedBeforeTheSessionIsUsed(t *testing.T) {
	const fs = prefix + "/sessions/" + apitest.ID + "/fs/"
	apitest.CheckRefused(t, func(engine belljar.Engine) (apitest.Door, error) {
		return rest.New(rest.Options{Engine: engine, Auth: apitest.Callers()})
	}, apitest.Route{Method: "POST", Path: fs + "list", Body: `{"path": "../x"}`}, apitest.Route{Method: "POST", Path: fs + "search", Body: `{"name": "["}`})
}
