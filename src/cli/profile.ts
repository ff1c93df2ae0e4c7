/** The service that `letterhaus login` saved for this user: its address and an API key, readable for this user only. */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Env } from '../config/env-file.ts';

export type Profile = { url: string; key: string };

/** Follows the XDG Base Directory Specification, which ignores relative paths. */
export function profileFile(env: Env): string {
  const { XDG_CONFIG_HOME: asked = '', HOME: home = homedir() } = env;
  const folder = asked.startsWith('/') ? asked : join(home, '.config');
  return join(folder, 'letterhaus/profile.json');
}

/** Returns null without a profile, also in the home of another user: `runuser` and `sudo -E` keep HOME. */
export function readProfile(env: Env): Profile | null {
  try {
    return JSON.parse(readFileSync(profileFile(env), 'utf8')) as Profile;
  } catch (error) {
    if (/ENOENT|ENOTDIR|EACCES/.test((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}

export function saveProfile(env: Env, profile: Profile): string {
  const file = profileFile(env);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  // A new file, because an existing one may be a link, or readable for others.
  const fresh = `${file}.new`;
  rmSync(fresh, { force: true });
  writeFileSync(fresh, `${JSON.stringify(profile)}\n`, { mode: 0o600, flag: 'wx' });
  renameSync(fresh, file);
  return file;
}

export function removeProfile(env: Env): void {
  rmSync(profileFile(env), { force: true });
}
