/** The time of the last `letterhaus backup` on any machine, for `letterhaus upgrade-check`. */
import { clientQueries, connectAsOwner, type DatabaseAddress } from '../../database/database.ts';

const SCHEMA_WITH_NOTE = 65;

/** Stores time and place of a backup; older schemas cannot store them. @param place for display */
export async function noteBackup(
  address: DatabaseAddress,
  { schema, takenAt, place }: { schema: number; takenAt: string; place: string },
): Promise<void> {
  if (schema < SCHEMA_WITH_NOTE) return;
  const client = await connectAsOwner(address, 'backup note');
  try {
    await clientQueries(client).query(
      'update installation set last_backup_at = $1, last_backup_place = $2',
      [takenAt, place],
    );
  } finally {
    await client.end();
  }
}
