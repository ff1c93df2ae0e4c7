/**
 * Commands that are clients of the API, through the SDK. connection.ts finds the service. On the service's machine,
 * --project and --environment choose the scope, or the id that a command gets does. A key belongs to one scope.
 */
import { type Command, Option } from 'commander';
import type { CurrentApiKey } from '../../sdk/src/api.ts';
import { Letterhaus } from '../../sdk/src/client.ts';
import { ConnectionError, failureOf, LetterhausError } from '../../sdk/src/errors.ts';
import { parseApiKey } from '../accounts/keys/api-key.ts';
import { type Environment, ENVIRONMENTS } from '../core/scope.ts';
import {
  addCommand,
  type Cli,
  type Examples,
  type ExitCode,
  failure,
  type Failure,
  isFailure,
  type CommandResult,
  runnable,
  usageFailure,
} from './command.ts';
import {
  connect,
  type Connection,
  type ConnectionRules,
  connectWhenStarted,
  noResponse,
} from './connection.ts';

export type ApiOptions = {
  url?: string;
  key?: string;
  project?: string;
  environment?: Environment;
  allProjects?: true;
  json?: true;
};

export type Api = {
  cli: Cli;
  /** Client for the chosen project and environment. */
  client: Letterhaus;
  /** Client for requests with the id of an object, which need no project and no environment. */
  byId: Letterhaus;
  /** Clients for a list: one for each environment, with --all-projects of each project. */
  all(): Promise<ScopedClient[]>;
  /** Sends a request that the SDK does not make, such as for a stream. @throws LetterhausError, ConnectionError */
  request: (path: string, init?: RequestInit) => Promise<Response>;
  /** Client for another project (`*` for all) or environment. Works only on the machine of the service. */
  clientFor(scope: Scope): Letterhaus;
  /** True when the operator of the machine runs the command, without a key. */
  isOperator: boolean;
  /** The environment in which changes are made; null when the id of an object decides. */
  environment: Environment | null;
  /** Returns project and environment of the last response, even if an id decided them, and its status. */
  lastScope(): ScopeOfResponse;
};

type ScopeOfResponse = {
  projectId: string | null;
  environment: Environment | null;
  status: number;
};

type ScopedClient = { client: Letterhaus; environment: Environment };

/**
 * The environment without --environment. `both`: a list shows both. `of_id`: the object's; the option does not exist.
 * `asked`: the option is required. `none`: the command concerns the installation, so only its operator may run it.
 */
type EnvironmentRule = Environment | 'both' | 'of_id' | 'asked' | 'none';

type ApiCommand<Options, Args> = Pick<ConnectionRules, 'followsStart' | 'takesKeyOfEnv'> & {
  examples: Examples;
  notes?: string;
  environment: EnvironmentRule;
  /** The command has an option --url of its own, which is not the address of a service. */
  hasOtherUrl?: boolean;
  run: (api: Api, options: Options, args: Args) => Promise<CommandResult | ExitCode>;
};

type ApiCommandDescription<Options, Args> = ApiCommand<Options, Args> & {
  name: string;
  about: string;
  hidden?: boolean;
};

export function apiCommand<Options extends ApiOptions, Args extends unknown[]>(
  parent: Command,
  cli: Cli,
  { name, about, hidden = false, ...rest }: ApiCommandDescription<Options, Args>,
): Command {
  const { examples, notes } = rest;
  const described = { name, about, hidden, examples, ...(notes !== undefined && { notes }) };
  const command = addCommand(parent, cli, { ...described, run: withApi(rest) });
  return connectionOptions(command, rest);
}

/** Like apiCommand, for a command that already has a name. */
export function apiRunnable<Options extends ApiOptions, Args extends unknown[]>(
  command: Command,
  cli: Cli,
  described: ApiCommand<Options, Args>,
): Command {
  const { examples, notes } = described;
  const run = withApi(described);
  runnable(command, cli, { examples, ...(notes !== undefined && { notes }), run });
  return connectionOptions(command, described);
}

function connectionOptions(
  command: Command,
  {
    environment: rule,
    hasOtherUrl = false,
  }: { environment: EnvironmentRule; hasOtherUrl?: boolean | undefined },
): Command {
  if (rule === 'none') return command;
  const project = new Option(
    '--project <name>',
    'name or id of the project (default: the only one)',
  );
  command
    .addOption(project.conflicts('key'))
    .option('--key <key>', 'API key (default: LETTERHAUS_API_KEY; on this machine none is needed)');
  if (!hasOtherUrl) {
    command.option(
      '--url <url>',
      'address of another service (default: LETTERHAUS_URL, the one of letterhaus login, or this machine)',
    );
  }
  if (rule === 'of_id') return command;
  const environment = new Option('--mode, --environment <environment>', 'environment');
  // Scripts use --mode, the former name. It works, but no help, error or completion shows it.
  environment.flags = '--environment <environment>';
  if (rule === 'asked') environment.makeOptionMandatory();
  command.addOption(environment.choices(ENVIRONMENTS).conflicts('key'));
  if (rule !== 'both') return command;
  return command.addOption(
    new Option('--all-projects', 'include all projects').conflicts(['project', 'key']),
  );
}

function withApi<Options extends ApiOptions, Args extends unknown[]>({
  environment: rule,
  run,
  hasOtherUrl = false,
  takesKeyOfEnv = false,
  followsStart = false,
}: ApiCommand<Options, Args>) {
  return async (cli: Cli, options: Options, args: Args): Promise<CommandResult | ExitCode> => {
    const { key, url } = options;
    const target = { key, url: hasOtherUrl ? undefined : url };
    const onlyHere = rule === 'none';
    const connection = await connectWhenStarted(cli, target, {
      takesKeyOfEnv,
      followsStart,
      onlyHere,
    });
    if (isFailure(connection)) return connection;
    const { project, environment, allProjects } = options;
    if (connection.key !== null && (project ?? environment ?? allProjects) !== undefined) {
      return usageFailure(
        'An API key is for one project and environment: leave out --project, --all-projects and --environment.',
      );
    }
    try {
      return await run(apiFor(cli, connection, { options, rule }), options, args);
    } catch (error) {
      return failureOfRequest(error, connection);
    }
  };
}

function apiFor(
  cli: Cli,
  connection: Connection,
  { options, rule }: { options: ApiOptions; rule: EnvironmentRule },
): Api {
  const byDefault = rule === 'live' || rule === 'test' ? rule : undefined;
  const { project, environment: chosen, allProjects } = options;
  const keyEnvironment = connection.key === null ? undefined : environmentOf(connection.key);
  const environment = keyEnvironment ?? chosen ?? byDefault;
  let lastScope: ScopeOfResponse = {
    projectId: null,
    environment: keyEnvironment ?? null,
    status: 0,
  };
  const sendAndNote: Connection['send'] = async (path, init) => {
    const response = await connection.send(path, init);
    lastScope = scopeOfResponse(response, lastScope);
    return response;
  };
  const clientFor = (scope: Scope) => clientWith(sendAndNote, scope);
  const client = clientFor({ project, environment });
  return {
    cli,
    client,
    byId: clientFor({ project, environment: chosen }),
    all: async () => {
      const environments = environment === undefined ? ENVIRONMENTS : [environment];
      const projects = allProjects ? (await client.projects.list()).data : [{ id: project }];
      return projects.flatMap(({ id }) =>
        environments.map((one) => ({
          client: clientFor({ project: id, environment: one }),
          environment: one,
        })),
      );
    },
    request: async (path, init = {}) => {
      const headers = headersOf({ project, environment }, init.headers);
      const response = await responseTo(sendAndNote(path, { ...init, headers }));
      if (response.ok) return response;
      throw await failureOf(response);
    },
    clientFor,
    isOperator: connection.key === null,
    environment: environment ?? null,
    lastScope: () => lastScope,
  };
}

/** A response without an environment leaves the last scope. */
function scopeOfResponse({ headers, status }: Response, last: ScopeOfResponse): ScopeOfResponse {
  const environment = ENVIRONMENTS.find((one) => one === headers.get('letterhaus-environment'));
  if (environment === undefined) return { ...last, status };
  return { projectId: headers.get('letterhaus-project'), environment, status };
}

/** A text that is no key counts as a test key; the service refuses it. */
function environmentOf(key: string): Environment {
  return parseApiKey(key) ?? 'test';
}

type Scope = { project?: string | undefined; environment?: Environment | undefined };

function clientWith(send: Connection['send'], scope: Scope): Letterhaus {
  return new Letterhaus({
    // Placeholders: the connection contains the address and the key.
    baseUrl: BASE,
    apiKey: 'of-the-connection',
    maxRetries: 0,
    fetch: (url, init) =>
      send((url as string).slice(BASE.length), {
        ...init,
        headers: headersOf(scope, init?.headers),
      }),
  });
}

const BASE = 'http://localhost';

async function responseTo(sent: Promise<Response>): Promise<Response> {
  try {
    return await sent;
  } catch (cause) {
    throw new ConnectionError('There was no response.', { cause });
  }
}

function headersOf(
  { project, environment }: Scope,
  headers: RequestInit['headers'] = {},
): Record<string, string> {
  return {
    ...(headers as Record<string, string>),
    ...(project !== undefined && { 'letterhaus-project': encodeURIComponent(project) }),
    ...(environment !== undefined && { 'letterhaus-environment': environment }),
  };
}

/** @throws errors that do not come from the API */
function failureOfRequest(error: unknown, { origin }: Pick<Connection, 'origin'>): Failure {
  if (error instanceof LetterhausError) {
    return failure({ refused: error.code, message: error.message });
  }
  if (error instanceof ConnectionError) return noResponse(origin, error.cause ?? error);
  throw error;
}

/** Replaces a 404 with a message that names the object and the command that lists such objects. */
export async function explainNotFound<Result>(
  request: Promise<Result>,
  message: string,
): Promise<Result> {
  try {
    return await request;
  } catch (error) {
    if (!(error instanceof LetterhausError) || error.code !== 'not_found') throw error;
    const { status, code, request_id, details, retry_after } = error;
    throw new LetterhausError({ status, code, message, request_id, details, retry_after });
  }
}

export async function nullIfNotFound<Result>(request: Promise<Result>): Promise<Result | null> {
  try {
    return await request;
  } catch (error) {
    if (error instanceof LetterhausError && error.code === 'not_found') return null;
    throw error;
  }
}

export async function listInAll<Row>(
  clients: readonly ScopedClient[],
  list: (client: Letterhaus) => AsyncIterable<Row>,
): Promise<(Row & { environment: Environment })[]> {
  const rows: (Row & { environment: Environment })[] = [];
  for (const { client, environment } of clients) {
    for await (const row of list(client)) rows.push({ ...row, environment });
  }
  return rows;
}

/** Returns a list in the form of the API, for --json. */
export function listData<Row>(data: readonly Row[], hasMore = false) {
  return { object: 'list', data, has_more: hasMore };
}

/** Asks the service about a key, with the key itself; null when the key is not valid there. */
export async function currentKey(
  cli: Cli,
  { url }: Pick<ApiOptions, 'url'>,
  key: string,
): Promise<CurrentApiKey | null> {
  const connection = connect(cli, { key, url });
  if (isFailure(connection)) return null;
  try {
    return await clientWith(connection.send, {}).apiKeys.current();
  } catch (error) {
    if (error instanceof LetterhausError && error.status < 500) return null;
    throw error;
  }
}
