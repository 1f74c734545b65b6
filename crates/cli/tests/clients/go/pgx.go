package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// state is the SQLSTATE of an error, or what it says instead.
func state(err error) string {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	if err == nil {
		return "no error"
	}
	return err.Error()
}

func pgxWorks(ctx context.Context, p place) {
	plain, err := pgx.Connect(ctx, p.create())
	must(err)
	defer plain.Close(ctx)
	var sum, count int
	must(plain.QueryRow(ctx, "select sum(x) from t where x <= $1", 100).Scan(&sum))
	check("the source's data", sum, 5050)

	// A transaction that is rolled back, and one that is not.
	for _, end := range []func(pgx.Tx) error{
		func(tx pgx.Tx) error { return tx.Rollback(ctx) },
		func(tx pgx.Tx) error { return tx.Commit(ctx) },
	} {
		tx, err := plain.Begin(ctx)
		must(err)
		_, err = tx.Exec(ctx, "insert into t values ($1, $2)", -1, "by pgx")
		must(err)
		must(end(tx))
	}
	_, err = plain.Exec(ctx, "insert into t values ($1, $2)", -1, "again")
	check("twice", state(err), "23505")

	certifiedWorks(ctx, p)
	cancelWorks(ctx, plain)

	// COPY, both ways.
	rows := [][]any{{-2, "two"}, {-3, nil}, {-4, "tab\tand\nline"}}
	copied, err := plain.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"x", "y"}, pgx.CopyFromRows(rows))
	must(err)
	check("rows copied in", copied, 3)
	var out bytes.Buffer
	_, err = plain.PgConn().CopyTo(ctx, &out, "copy (select * from t where x < 0 order by x desc) to stdout")
	must(err)
	check("rows copied out", out.String(), "-1\tby pgx\n-2\ttwo\n-3\t\\N\n-4\ttab\\tand\\nline\n")

	// Many statements in one round trip.
	batch := &pgx.Batch{}
	for i := range 20 {
		batch.Queue("select $1::int", i)
	}
	results := plain.SendBatch(ctx, batch)
	for i := range 20 {
		must(results.QueryRow().Scan(&count))
		check("in a batch", count, i)
	}
	must(results.Close())
	notificationsArrive(ctx, p, plain)
}

// certifiedWorks is about TLS: with the daemon's certificate, and not with any other trust.
func certifiedWorks(ctx context.Context, p place) {
	secure, err := pgx.Connect(ctx, p.secure(p.certificate))
	must(err)
	defer secure.Close(ctx)
	_, encrypted := secure.PgConn().Conn().(*tls.Conn)
	check("TLS", encrypted, true)
	var count int
	must(secure.QueryRow(ctx, "select count(*) from t where x = $1 and y = $2", -1, "by pgx").Scan(&count))
	check("what was committed", count, 1)
	_, err = pgx.Connect(ctx, p.secure("system"))
	check("a certificate that nobody vouches for is refused", err != nil, true)
}

// cancelWorks asks the server to end a statement, and the session goes on.
func cancelWorks(ctx context.Context, connection *pgx.Conn) {
	began := time.Now()
	asked := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() { asked <- connection.PgConn().CancelRequest(ctx) })
	_, err := connection.Exec(ctx, "select pg_sleep(50)")
	check("cancelled", state(err), "57014")
	must(<-asked)
	check("at once", time.Since(began) < 10*time.Second, true)
	_, err = connection.Exec(ctx, "select 1")
	must(err)
}

func notificationsArrive(ctx context.Context, p place, listener *pgx.Conn) {
	_, err := listener.Exec(ctx, "listen news")
	must(err)
	other, err := pgx.Connect(ctx, p.plain())
	must(err)
	defer other.Close(ctx)
	_, err = other.Exec(ctx, "select pg_notify('news', $1)", "it works")
	must(err)
	notification, err := listener.WaitForNotification(ctx)
	must(err)
	check("a notification", notification.Payload, "it works")
}
