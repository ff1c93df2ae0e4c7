/** `letterhaus login` and `logout`: saves the address and key of a service for all further commands of this user. */
import { type Command, Option } from 'commander';
import { currentKey } from '../api.ts';
import { ConnectionError } from '../../../sdk/src/errors.ts';
import {
  type Cli,
  type Failure,
  failure,
  isFailure,
  type CommandResult,
  runnable,
} from '../command.ts';
import { connect, type Connection, noResponse } from '../connection.ts';
import { profileFile, removeProfile, saveProfile } from '../profile.ts';

export function describeLogin(login: Command, cli: Cli): void {
  login
    .addOption(new Option('--url <url>', 'address of the service').makeOptionMandatory())
    .option('--key <key>', 'API key (default: LETTERHAUS_API_KEY)');
  runnable(login, cli, {
    examples: ['login --url https://mail.acme.com --key lh_live_3fK9'],
    notes:
      'Until logout, all commands use this service, even on a machine with a service of its own.',
    run: logIn,
  });
}

type Options = { url: string; key?: string };

async function logIn(cli: Cli, options: Options): Promise<CommandResult> {
  const connection = connect(cli, options);
  if (isFailure(connection)) return connection;
  const { url } = options;
  const key = connection.key ?? '';
  const found = await currentKey(cli, { url }, key).catch(toNoResponse(connection));
  if (found !== null && isFailure(found)) return found;
  if (found === null) {
    const message = `The service at ${connection.origin} does not accept this key.`;
    return failure({ refused: 'authentication_error', message });
  }
  const file = saveProfile(cli.env, { url, key });
  const { project, environment } = found;
  return {
    data: { object: 'login', url, project, environment, file },
    text: `Commands go to ${connection.origin}, project ${project.name} (${environment}), until letterhaus logout.`,
  };
}

/** Turns a failed connection into a failure of the command. @throws other errors */
const toNoResponse =
  ({ origin }: Connection) =>
  (error: unknown): Failure => {
    if (error instanceof ConnectionError) return noResponse(origin, error);
    throw error;
  };

export function describeLogout(logout: Command, cli: Cli): void {
  runnable(logout, cli, {
    examples: ['logout'],
    run: () => {
      removeProfile(cli.env);
      const data = { object: 'logout', file: profileFile(cli.env) };
      return Promise.resolve({ data, text: 'Removed the saved service.' });
    },
  });
}
