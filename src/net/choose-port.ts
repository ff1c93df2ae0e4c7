/** Chooses the port to listen on. Only the default port is replaced, by the next free one, when it is in use. */
import { createServer } from 'node:net';

const TRIES = 100;
/**
 * The first port for "any port". The range is below the ports that the system assigns to outgoing connections and to
 * port 0 (from 32,768 on Linux, 49,152 elsewhere). So no other program gets the port between choosing and listening.
 */
const ANY_FIRST = 20_000;
const ANY_COUNT = 12_000;

type PortRequest = {
  /** null: all addresses. */
  host: string | null;
  port: number;
  isPortConfigured: boolean;
  /** The environment variables that set host and port, for error messages. */
  names?: { host: string; port: string };
};

/** Number of choices before a process reaches the ports of the next process id. */
const TURNS_PER_PROCESS = 16;
const DEFAULT_NAMES = { host: 'HOST', port: 'PORT' };

/**
 * Yields numbers for a process's choices of "any port". A chosen port is free until the workers listen on it, so
 * services that start at the same time must choose different ones. Their process ids are close together, and each id
 * has its own numbers. Within a process no number repeats.
 */
export function* portTurns(pid: number): Generator<number, never> {
  for (let turn = pid * TURNS_PER_PROCESS; ; turn += 1) yield turn;
}

type ChosenPort = { port: number } | { problem: string };

/**
 * Finds a free port: `port`, the next free one if `port` is the default, or any if it is 0. The port is not
 * reserved.
 * @param turns from `turnsOf`, shared by all choices of a process
 */
export async function choosePort(
  options: PortRequest,
  turns: Iterator<number, never>,
): Promise<ChosenPort> {
  const { host } = options;
  let refused = 'EADDRINUSE';
  for (const candidate of candidates(options, turns)) {
    if (refused !== 'EADDRINUSE') break;
    const found = await tryPort(host, candidate);
    if (typeof found === 'number') return { port: found };
    refused = found;
  }
  return { problem: explain(refused, options) };
}

function* candidates(
  { port, isPortConfigured }: { port: number; isPortConfigured: boolean },
  turns: Iterator<number, never>,
): Generator<number> {
  const isAny = port === 0;
  const count = isAny ? TRIES : isPortConfigured ? 1 : Math.min(TRIES + 1, 65_536 - port);
  for (let tries = 0; tries < count; tries += 1) {
    yield isAny ? ANY_FIRST + (turns.next().value % ANY_COUNT) : port + tries;
  }
}

/** @returns the port, or the code of the error */
function tryPort(host: string | null, port: number): Promise<number | string> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ ...(host === null ? {} : { host }), port, exclusive: true }, () => {
      const address = server.address();
      const found = typeof address === 'object' && address !== null ? address.port : port;
      server.close(() => resolve(found));
    });
  });
}

function explain(code: string, { host, port, names = DEFAULT_NAMES }: PortRequest): string {
  switch (code) {
    case 'EADDRINUSE':
      return `${names.port}: port ${port} is in use by another program; stop it or choose another port.`;
    case 'EACCES':
      return `${names.port}: this user may not listen on port ${port}. Give the service the capability CAP_NET_BIND_SERVICE, as docs/system-user.md shows, or choose a port above 1023.`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `${names.host}: ${host} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all.`;
    default:
      return `${names.host}, ${names.port}: cannot listen on ${host ?? 'all addresses'} port ${port} (${code}); choose others.`;
  }
}
