/**
 * The API of a running service, as a client of it: where it is, with which key, and what its answers
 * mean. For commands that go through the API so that the key's rules hold, also from another machine.
 */
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { Agent, fetch, type RequestInit, type Response } from 'undici';
import { readConfig } from '../config/config.ts';
import { readRunning } from '../store/postgres/embedded/lock.ts';
import { type Environment } from '../core/scope.ts';
import { createKey, revokeKey } from '../store/keys.ts';
import {
  type Cli,
  failure,
  type Failure,
  isFailure,
  type Outcome,
  usageFailure,
} from './command.ts';
import { chooseScope, modeOption, projectOption, type ProjectOptions, withStore } from './store.ts';

export type ApiOptions = { key?: string; url?: string };
export type OwnKeyOptions = ApiOptions & ProjectOptions & { mode?: Environment };

/** Which service, and as whom. */
export function apiOptions(command: Command): Command {
  return command
    .option('--key <key>', 'API key (default: POSTHORN_API_KEY)')
    .option('--url <url>', 'of the service (default: POSTHORN_URL, or the one running here)');
}

/** The same for a command that makes its own key on the machine of the service: see withApi. */
export function ownKeyOptions(command: Command): Command {
  return apiOptions(command)
    .addOption(modeOption().conflicts('key'))
    .addOption(projectOption().conflicts('key'));
}

/** Longer than any request of a command takes. */
const OWN_KEY_LASTS_MS = 5 * 60_000;

/**
 * Does the work with the given key. Without one, who can open the database of the service that runs here
 * needs none: a key that may send is made for this work and revoked after it, and expires soon where the
 * command dies before. Its environment is --mode, by default test, so that nothing real is sent by mistake.
 */
export async function withApi(
  cli: Cli,
  options: OwnKeyOptions,
  work: (api: ServiceApi) => Promise<Outcome>,
): Promise<Outcome> {
  const isOwn =
    (options.key ?? cli.env['POSTHORN_API_KEY'] ?? '') === '' &&
    (options.url ?? cli.env['POSTHORN_URL']) === undefined &&
    runningHere(cli) !== null;
  if (!isOwn) {
    const api = apiOf(cli, options);
    return isFailure(api) ? api : work(api);
  }
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, { ...options, mode: options.mode ?? 'test' });
    if (isFailure(scope)) return scope;
    const { key, text } = await createKey(db, scope, {
      name: 'posthorn send',
      permission: 'sending_access',
      domain: null,
      expiresAt: new Date(cli.world.now() + OWN_KEY_LASTS_MS),
    });
    try {
      const api = apiOf(cli, { key: text });
      return isFailure(api) ? api : await work(api);
    } finally {
      await revokeKey(db, scope, key.id);
    }
  });
}

export type ServiceApi = {
  /** As it is shown to people. */
  origin: string;
  /** @throws a TypeError of fetch when there is no answer */
  request(path: string, init?: RequestInit): Promise<Response>;
};

/**
 * @param options.silenceMs after which an answer that has begun is given up
 * @returns a failure when the key or the address is missing
 */
export function apiOf(
  cli: Cli,
  options: ApiOptions,
  { silenceMs }: { silenceMs?: number } = {},
): ServiceApi | Failure {
  const key = options.key ?? cli.env['POSTHORN_API_KEY'];
  const asked = options.url ?? cli.env['POSTHORN_URL'];
  const here = asked === undefined ? runningHere(cli) : null;
  const url = asked ?? here?.url;
  if (url === undefined) {
    return usageFailure('No service is running here: start it, or give --url or POSTHORN_URL.');
  }
  if (!key) return usageFailure('An API key is needed: give --key or set POSTHORN_API_KEY.');
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    return usageFailure(
      `${JSON.stringify(url)} is not the address of a service; write it like http://127.0.0.1:3000.`,
    );
  }
  const dispatcher = new Agent({
    ...(silenceMs !== undefined && { bodyTimeout: silenceMs }),
    ...trusting(here?.certificate ?? null),
  });
  return {
    origin: parsed.origin,
    request: (path, init = {}) =>
      fetch(new URL(path, url), {
        ...init,
        headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${key}` },
        dispatcher,
      }),
  };
}

type Here = { url: string; certificate: string | null };

/** The service on the data directory of this environment, as far as this user may know of it. */
function runningHere(cli: Cli): Here | null {
  const read = readConfig(cli.env);
  if (!read.ok) return null;
  const { dataDir, apiTlsFiles } = read.config;
  try {
    const url = readRunning(dataDir)?.url ?? null;
    return url === null ? null : { url, certificate: apiTlsFiles?.cert ?? null };
  } catch {
    return null;
  }
}

/**
 * The service on this machine is reached by an address, which its certificate does not name: the
 * certificate itself is known here, and no other is trusted.
 */
function trusting(certificate: string | null): Pick<Agent.Options, 'connect'> {
  if (certificate === null) return {};
  const ca = readFileSync(certificate);
  const checkServerIdentity = () => undefined;
  return { connect: { ca, allowPartialTrustChain: true, checkServerIdentity } };
}

export function noAnswer(origin: string, error: unknown): Failure {
  const { message, cause } = error as Error & { cause?: Error };
  const why = cause?.message || message;
  return {
    failed: `No answer from the service at ${origin} (${why}); check that it runs there.`,
    code: 'service_unavailable',
    exitCode: 1,
  };
}

export type ErrorAnswer = { error?: { code: string; message: string } };

/** What an answer that is no success says. */
export function refusedBy({ error }: ErrorAnswer): Failure {
  const { code = 'internal_error', message = 'the answer has no error in it' } = error ?? {};
  return failure({ refused: code, message });
}
