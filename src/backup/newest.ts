/** The newest backup, looked for where the service puts them. */
import type { World } from '../lib/world.ts';
import { S3Problem } from '../net/s3/problems.ts';
import type { S3Access } from '../net/s3/transport.ts';
import { placeOf } from './places/locate.ts';
import { PlaceProblem, timeOf } from './places/place.ts';

export type NewestBackup = { place: string } & (
  | { problem: string }
  | { file: null }
  | { file: string; ageMs: number }
);

/** @returns null when the service makes none */
export async function newestBackup(
  { to, s3 }: { to: string | null; s3: S3Access | null },
  world: World,
): Promise<NewestBackup | null> {
  if (to === null) return null;
  const place = placeOf(to, { access: s3, world });
  try {
    const file = (await place.list()).at(-1);
    const atMs = file === undefined ? null : timeOf(file);
    if (file === undefined || atMs === null) return { place: place.name, file: null };
    return { place: place.name, file, ageMs: world.now() - atMs };
  } catch (error) {
    if (!(error instanceof PlaceProblem || error instanceof S3Problem)) throw error;
    return { place: place.name, problem: error.message };
  }
}
