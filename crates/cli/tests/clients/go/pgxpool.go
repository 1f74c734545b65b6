package main

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

// cancelling has a context that ends cancel the statement at the server, instead of ending the connection.
func cancelling(connection *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.CancelRequestContextWatcherHandler{Conn: connection, DeadlineDelay: 20 * time.Second}
}

func pgxpoolWorks(ctx context.Context, p place) {
	first, err := pgx.Connect(ctx, p.create())
	must(err)
	must(first.Close(ctx))
	config, err := pgxpool.ParseConfig(p.secure(p.certificate))
	must(err)
	config.MaxConns = 4
	config.ConnConfig.BuildContextWatcherHandler = cancelling
	pool, err := pgxpool.NewWithConfig(ctx, config)
	must(err)
	defer pool.Close()

	// As many at once as the pool has, and more than that.
	var together, all sync.WaitGroup
	together.Add(4)
	for i := range 16 {
		all.Go(func() {
			connection, err := pool.Acquire(ctx)
			must(err)
			defer connection.Release()
			if i < 4 {
				together.Done()
				together.Wait()
			}
			must(pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "insert into t values ($1, $2)", -i-1, "by pgxpool")
				return err
			}))
		})
	}
	all.Wait()
	var count int
	must(pool.QueryRow(ctx, "select count(*) from t where y = $1", "by pgxpool").Scan(&count))
	check("rows of all", count, 16)
	check("connections", pool.Stat().TotalConns(), 4)

	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	_, err = pool.Exec(short, "select pg_sleep(50)")
	check("cancelled", state(err), "57014")

	// Sessions that end beneath the pool are replaced.
	must(pool.QueryRow(ctx, ends).Scan(&count))
	check("sessions that ended", count, 3)
	for range 8 {
		must(pool.Ping(ctx))
	}
	must(pool.QueryRow(ctx, "select count(*) from t where y = $1", "by pgxpool").Scan(&count))
	check("rows after that", count, 16)
}

// ends ends all sessions of the branch but the one that says it.
const ends = `select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
	where usename = current_user and application_name = current_setting('application_name')
	and pid <> pg_backend_pid()`
