/** `letterhaus move --undo`: goes back to the old database as it was at the switch, on hold (move/undo.ts). */
import type { Config } from '../config/config.ts';
import { undoMove } from './undo.ts';
import { destinationOf, openDestination, sealDestination } from './fence-store.ts';
import type { DatabaseAddress } from '../database/database.ts';
import { withoutPassword } from '../database/server/address.ts';
import { connectRunning, type RunningConnection } from '../database/embedded/engine.ts';
import { type Departure, EMBEDDED_NAME } from '../database/server/move-marks.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { findOrCreateInstanceId, requireSecretKey } from '../secrets/secret-key-file.ts';
import { type Cli, type CommandResult } from '../cli/command.ts';
import { withAddress } from '../cli/store.ts';

export function undoCommand(
  cli: Cli,
  { isNewLost }: { isNewLost: boolean },
): Promise<CommandResult> {
  const work = async ({ address, config }: { address: DatabaseAddress; config: Config }) => {
    const secrets = new SecretBox(requireSecretKey(config));
    const { databaseUrl, dataDir } = config;
    await using engines = new AsyncDisposableStack();
    const openNew = async ({ sealed }: Departure): Promise<DatabaseAddress | null> => {
      if (isNewLost) return null;
      const to = openDestination(secrets, sealed);
      if ('url' in to) return { connectionString: to.url };
      const engine: RunningConnection = engines.use(
        await connectRunning({ dataDir, world: cli.world, log: (line) => cli.err(`${line}\n`) }),
      );
      return engine.address();
    };
    const departure = await undoMove({
      old: address,
      oldName: databaseUrl === null ? EMBEDDED_NAME : withoutPassword(databaseUrl),
      sealed: sealDestination(secrets, destinationOf(databaseUrl, findOrCreateInstanceId(dataDir))),
      openNew,
    });
    return undoCommandResult(cli, departure);
  };
  return withAddress(cli, work, { mayBeOld: true });
}

function undoCommandResult({ program }: Cli, { databaseName, at }: Departure): CommandResult {
  return {
    data: { object: 'move', undone: true, from: databaseName, moved_at: at.toISOString() },
    text: [
      `The database is used again as it was at ${at.toISOString()}; ${databaseName} takes no more writes.`,
      'The installation is on hold: it accepts mail, but sends nothing and posts no webhook.',
      `Preview the release: ${program} release --dry-run`,
      `Release:             ${program} release --except-in-doubt`,
    ].join('\n'),
  };
}
