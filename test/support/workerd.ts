/**
 * Cloudflare Workers on this machine: the runtime `workerd` with one Worker and its own port. Its binary is an
 * optional dependency of test/sdk/workerd, because npm installs only the one for this platform.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

const PLATFORM = `${process.platform}-${process.arch === 'x64' ? '64' : process.arch}`;
const BINARY = createRequire(import.meta.url).resolve(
  `@cloudflare/workerd-${PLATFORM}/bin/workerd`,
);

export type Workerd = AsyncDisposable & { url: string };

type Worker = {
  /** ES modules by name; the first one has the handler. */
  modules: Record<string, string>;
  bindings: Record<string, string>;
};

/** Resolves when it listens. Its stderr goes to the test's. */
export async function startWorkerd(worker: Worker): Promise<Workerd> {
  const folder = await mkdtemp(join(tmpdir(), 'letterhaus-workerd-'));
  const file = join(folder, 'config.capnp');
  await writeFile(file, configOf(worker));
  const child = spawn(BINARY, ['serve', file, '--control-fd=3'], {
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
  });
  const exited = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGKILL');
    await exited;
    await rm(folder, { recursive: true });
  };
  const port = await Promise.race([portOf(child.stdio[3] as Readable), exited.then(() => null)]);
  if (port !== null) return { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: stop };
  await stop();
  throw new Error('workerd ended before it listened; its message is above.');
}

async function portOf(control: Readable): Promise<number> {
  for await (const line of createInterface({ input: control })) {
    const { event, port } = JSON.parse(line) as { event: string; port: number };
    if (event === 'listen') return port;
  }
  throw new Error('workerd did not say where it listens.');
}

/** Writes Cap'n Proto text, whose strings are those of JSON. */
function configOf({ modules, bindings }: Worker): string {
  const moduleList = Object.entries(modules).map(
    ([name, code]) => `(name = ${JSON.stringify(name)}, esModule = ${text(code)})`,
  );
  const bindingList = Object.entries(bindings).map(
    ([name, value]) => `(name = ${JSON.stringify(name)}, text = ${text(value)})`,
  );
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [${moduleList.join(', ')}],
      bindings = [${bindingList.join(', ')}],
      compatibilityDate = "2026-11-01",
    )),
    (name = "internet", network = (allow = ["public", "private", "local"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
`;
}

/** Escapes the bytes of characters outside of ASCII, because Cap'n Proto has no \\u. */
function text(value: string): string {
  const bytes = [...Buffer.from(value)];
  return `"${bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}"`;
}
