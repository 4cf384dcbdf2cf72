package app

import (
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/paydb"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// serviceRules are the rows of what only a service says: the frame of its HTTP, and
// its own start. What it says for a store is the store's own error by the time that
// it is seen here.
func serviceRules() []rule {
	return []rule{
		typed("RoleError", Refused, "wrong_login", func(e *paydb.RoleError) (string, any) {
			return "make a login for each service: dlockctl migrate roles --print shows the group roles",
				map[string]string{"login": e.Login, "role": string(e.Role)}
		}),
		typed("RailError", Unreachable, problem.RailUnreachable, func(*payapi.RailError) (string, any) {
			return "is the rail up? what was submitted stays in doubt until it answers", nil
		}),
		problemRule(Refused, problem.Unauthenticated, "give the key that the service's operator made: server.key_file"),
		problemRule(Refused, problem.Forbidden, "ask the service's operator for a key with that scope"),
		problemRule(Refused, problem.FloorUnknown, "are payment-resource and rail-proxy up, and does lock-server know their addresses?"),
		problemRule(Unreachable, problem.RateLimited, "ask less often"),
		problemRule(Unreachable, problem.Draining, "ask again: another instance, or the next, answers"),
		problemRule(Unreachable, problem.TooSlow, "the network is slow; try again"),
		problemRule(Usage, problem.TooLarge, "give less at once"),
		problemRule(Unexpected, problem.MediaType, "are the versions of dlockctl and the service far apart?"),
		problemRule(Usage, problem.Usage, ""),
		typed("Problem", Unexpected, problem.Unexpected, func(p *problem.Problem) (string, any) { return p.Hint, nil }),
	}
}

// problemRule is the row of a problem's code; the service's own hint goes first.
func problemRule(exit Exit, code, hint string) rule {
	return typedIf("Problem", exit, code, func(p *problem.Problem) bool { return p.Code == code }, func(p *problem.Problem) (string, any) {
		if p.Hint != "" {
			return p.Hint, nil
		}
		return hint, nil
	})
}
