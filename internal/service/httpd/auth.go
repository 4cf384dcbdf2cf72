package httpd

import (
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// open tells that nobody has to say who they are: loopback without keys.
func (s *Server) openToAll() bool { return s.keys == nil }

// authenticate finds who calls: by API key, or else by client certificate. A key
// that is not known is refused, whatever certificate came with it.
func (s *Server) authenticate(r *http.Request) (Caller, *problem.Problem) {
	if s.openToAll() {
		return Caller{}, nil
	}
	ring := s.keys.get()
	if header := r.Header.Get("Authorization"); header != "" {
		kind, key, _ := strings.Cut(header, " ")
		if caller, known := ring.byKey(strings.TrimSpace(key)); known && strings.EqualFold(kind, "Bearer") {
			return caller, nil
		}
		return Caller{}, unauthenticated("the API key is not known here")
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		name := r.TLS.VerifiedChains[0][0].Subject.CommonName
		if caller, known := ring.certs[name]; known {
			return caller, nil
		}
		return Caller{}, unauthenticated("the keys file does not name this certificate's common name")
	}
	return Caller{}, unauthenticated("there is no credential; send Authorization: Bearer KEY")
}

func unauthenticated(detail string) *problem.Problem {
	return problem.New(http.StatusUnauthorized, problem.Unauthenticated, detail)
}

// public tells what is answered without a credential: whether the process lives and
// whether it is ready, for whoever restarts it or sends it callers, and the
// documents that stand in the repository anyway.
func public(path string) bool {
	switch path {
	case livePath, readyPath, jsonPath, yamlPath:
		return true
	}
	return false
}

// sameSite refuses what a web page in somebody's browser sends to a service on
// loopback, where no credential stops it: from another origin, or under another
// name that was made to point here.
func (s *Server) sameSite(r *http.Request) *problem.Problem {
	if err := s.origins.Check(r); err != nil {
		return problem.New(http.StatusForbidden, problem.Forbidden, "a page of another origin may not call this service")
	}
	if !s.openToAll() {
		return nil
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return problem.Newf(http.StatusMisdirectedRequest, problem.Forbidden, "this service answers to localhost, not to %q", host)
}

// scoped lets a call through to an operation that the caller's scopes allow.
func (s *Server) scoped(ctx huma.Context, next func(huma.Context)) {
	x := exchangeOf(ctx.Context())
	x.operation = ctx.Operation().OperationID
	if scopes := ScopesOf(ctx.Operation()); !s.openToAll() && !x.caller.may(scopes) {
		x.refuse(forbidden(scopes))
		return
	}
	next(ctx)
}

func forbidden(scopes []Scope) *problem.Problem {
	return problem.Newf(http.StatusForbidden, problem.Forbidden, "the credential lacks the scope %s", strings.ReplaceAll(scopeList(scopes), ",", " or "))
}
