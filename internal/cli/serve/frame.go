package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/buildinfo"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// frame is what every service runs in.
type frame struct {
	app     *app.App
	cfg     *config.Config
	name    string
	port    int
	log     *slog.Logger
	metrics *telemetry.Metrics
	trace   *telemetry.Tracing
}

// service is what is framed.
type service interface {
	Register(api huma.API)
	Ready(ctx context.Context) []httpd.Condition
}

// command makes the command of a service. It goes on until it is stopped, whatever
// --timeout says.
func command(a *app.App, cmd *cobra.Command, port int, run func(ctx context.Context, f *frame) error) *cobra.Command {
	cmd.Args = app.Args()
	cmd.RunE = a.Run(func(ctx context.Context, _ []string) error {
		a.Endless()
		f, err := newFrame(ctx, a, cmd.Name(), port)
		if err != nil {
			return err
		}
		return f.during(ctx, run)
	})
	frameFlags(cmd.Flags(), port)
	return cmd
}

// frameFlags are the flags of every service; all are read through the configuration.
func frameFlags(flags *pflag.FlagSet, port int) {
	flags.String("listen", "", "`ADDRESS` to listen on; any but loopback needs --keys-file (default 127.0.0.1:"+strconv.Itoa(port)+")")
	flags.String("tls-cert-file", "", "`FILE` with the service's certificate and chain, PEM; read again when it changes")
	flags.String("tls-key-file", "", "`FILE` with its private key, PEM")
	flags.String("client-ca-file", "", "`FILE` with the authority of the callers' certificates, PEM: mutual TLS")
	flags.String("keys-file", "", "`FILE` that names who may call, a line each, made by dlockctl serve key; read again when it changes")
	flags.Duration("drain", 0, "how long requests in flight have once the service is told to stop (default 20s)")
	app.WholeVar(flags, new(int), "rate", 0, "most requests a second of one caller with a credential; 0 for no bound (default 2000)")
	flags.String("log-format", "", "`FORMAT` of the log on stderr: text or json (default text)")
	flags.String("log-level", "", "`LEVEL` from which on is logged: debug, info, warn or error (default info)")
}

func newFrame(ctx context.Context, a *app.App, name string, port int) (*frame, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	// A terminal that goes away takes no service with it.
	signal.Ignore(syscall.SIGHUP)
	log, err := telemetry.NewLogger(a.Streams.Err, cfg.Serve.LogFormat, cfg.Serve.LogLevel)
	if err != nil {
		return nil, app.UsageError("", "%v", err)
	}
	trace, err := telemetry.StartTracing(ctx, name, buildinfo.Read().Version, a.Streams.Env)
	if err != nil {
		return nil, app.UsageError("correct the OTEL_* variables, or take them out", "%v", err)
	}
	a.Badge()
	if cfg.AllowSameInstance {
		log.Warn("allow_same_instance is set: locks and money may share one PostgreSQL instance, and one failure takes both")
	}
	return &frame{app: a, cfg: cfg, name: name, port: port, log: log, metrics: telemetry.NewMetrics(name), trace: trace}, nil
}

// during runs a service, and sends its last spans.
func (f *frame) during(ctx context.Context, run func(context.Context, *frame) error) error {
	err := run(ctx, f)
	late, cancel := app.CleanUp(ctx)
	defer cancel()
	if stopErr := f.trace.Stop(late); stopErr != nil {
		f.log.Warn("the last spans are lost", slog.String("error", stopErr.Error()))
	}
	return err
}

// server frames a service.
func (f *frame) server(s service) (*httpd.Server, error) {
	serve := f.cfg.Serve
	listen := serve.Listen
	if listen == "" {
		listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port))
	}
	server, err := httpd.New(httpd.Options{
		Name: f.name, Version: buildinfo.Read().Version, Listen: listen, KeysFile: serve.KeysFile,
		TLS: httpd.TLSFiles{CertFile: serve.TLSCertFile, KeyFile: serve.TLSKeyFile, ClientCAFile: serve.ClientCAFile},
		Log: f.log, Metrics: f.metrics, Trace: f.trace, Ready: s.Ready, Drain: serve.Drain,
		Limits: httpd.Limits{Rate: serve.Rate},
	})
	if err != nil {
		return nil, app.UsageError("", "%v", err)
	}
	s.Register(server.API())
	return server, nil
}

// serve frames a service and answers until the context ends.
func (f *frame) serve(ctx context.Context, s service) error {
	server, err := f.server(s)
	if err != nil {
		return err
	}
	return server.Serve(ctx)
}

// login is how a service reaches its database: what the configuration says, or on
// the embedded instances the login of its own role.
func (f *frame) login(role string, configured func() (*pgx.ConnConfig, error)) (*pgx.ConnConfig, error) {
	parsed, err := f.ownLogin(role, configured)
	if err != nil {
		return nil, err
	}
	parsed.Tracer = f.trace.QueryTracer()
	return parsed, nil
}

func (f *frame) ownLogin(role string, configured func() (*pgx.ConnConfig, error)) (*pgx.ConnConfig, error) {
	if !f.cfg.Embedded() {
		return configured()
	}
	env, err := f.app.Dev()
	if err != nil {
		return nil, err
	}
	dsn, err := env.ServiceDSN(role)
	if err != nil {
		return nil, err
	}
	parsed, err := pgx.ParseConfig(dsn)
	if err != nil {
		// Not what pgx says: the password is in it.
		return nil, fmt.Errorf("the login of %s in %s is malformed; dlockctl dev up writes it again", role, env.Dir())
	}
	return parsed, nil
}
