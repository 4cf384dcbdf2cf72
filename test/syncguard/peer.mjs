// The library itself, asked over a pipe: a line of JSON in, a line of JSON out. The
// address of the database is in PEER_DSN, where `ps` does not show it.
import { createInterface } from "node:readline";
import postgres from "postgres";
import { createPostgresBackend } from "syncguard/postgres";

const sql = postgres(process.env.PEER_DSN, { max: 4, onnotice: () => {} });
const backend = createPostgresBackend(sql);

for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...opts } = JSON.parse(line);
  let answer;
  try {
    const got = await backend[op](opts);
    answer = typeof got === "object" ? { ...got } : { ok: got };
  } catch (err) {
    answer = { ok: false, error: `${err.code}: ${err.message}` };
  }
  console.log(JSON.stringify(answer));
}
await sql.end();
