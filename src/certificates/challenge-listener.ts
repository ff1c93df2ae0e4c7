/**
 * The port to which the authority connects (80). It answers challenges of all nodes, and sends browsers to https. It
 * serves nothing else: no API, and no content of other paths.
 *
 * Strangers can reach it. Connections and times are limited, and unknown tokens cost at most one statement a second.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { World } from '../lib/world.ts';
import { startPublicListener } from '../net/http/public-listener.ts';
import type { Challenge } from './certificate-store.ts';

export type ChallengeListener = AsyncDisposable & { port: number };

const CONNECTIONS_MAX = 256;
const READ_EVERY_MS = 1_000;
const CHALLENGE = /^\/\.well-known\/acme-challenge\/([A-Za-z0-9_-]{1,256})$/;

type ListenerOptions = {
  where: { host: string | null; port: number };
  /** URLs of this service, https. The first one is for requests under other names. */
  urls: readonly string[];
  listChallenges: () => Promise<Challenge[]>;
  world: Pick<World, 'monotonicMs'>;
};

export async function listenForChallenges(options: ListenerOptions): Promise<ChallengeListener> {
  const { where, urls } = options;
  const challenges = new SharedReads(options);
  const respond = (request: IncomingMessage, response: ServerResponse): void => {
    response.setHeader('connection', 'close');
    const [, token] = CHALLENGE.exec(request.url ?? '') ?? [];
    if (token === undefined) return redirect(request, response, urls);
    challenges.find(token).then(
      (found) => response.writeHead(found === undefined ? 404 : 200).end(found),
      () => response.writeHead(503).end(),
    );
  };
  const listener = await startPublicListener({
    where,
    connectionsMax: CONNECTIONS_MAX,
    contentType: 'text/plain; charset=utf-8',
    respond,
  });
  return { ...listener, port: where.port };
}

/** Redirects to our own names only. A request with a key is refused, so that its sender notices. */
function redirect(
  { headers, method = '', url = '/' }: IncomingMessage,
  response: ServerResponse,
  urls: readonly string[],
): void {
  const name = (headers.host ?? '').replace(/:\d*$/, '').toLowerCase();
  const origins = urls.map((one) => new URL(one));
  const target = origins.find(({ hostname }) => hostname === name) ?? origins[0];
  if (target === undefined) return void response.writeHead(404).end();
  if (headers.authorization !== undefined || !/^(?:GET|HEAD)$/.test(method)) {
    return void response.writeHead(403).end(`Use ${target.origin}.\n`);
  }
  const path = url.startsWith('/') ? url : '/';
  response.writeHead(301, { location: target.origin + path }).end();
}

/** Reads that begin at most once a second. Requests that come meanwhile wait for the next one. */
class SharedReads {
  readonly #options: Pick<ListenerOptions, 'listChallenges' | 'world'>;
  #next: Promise<Challenge[]> | null = null;
  #lastMs = -Infinity;

  constructor(options: Pick<ListenerOptions, 'listChallenges' | 'world'>) {
    this.#options = options;
  }

  async find(token: string): Promise<string | undefined> {
    const challenges = await (this.#next ??= this.#readNext());
    return challenges.find((one) => one.token === token)?.keyAuthorization;
  }

  async #readNext(): Promise<Challenge[]> {
    const { listChallenges, world } = this.#options;
    // At least one turn, so that `#next` is set before it is reset.
    const waitMs = Math.max(0, this.#lastMs + READ_EVERY_MS - world.monotonicMs());
    await new Promise((resolve) => setTimeout(resolve, waitMs).unref());
    this.#lastMs = world.monotonicMs();
    this.#next = null; // a request from now on may be for a newer challenge
    return listChallenges();
  }
}
