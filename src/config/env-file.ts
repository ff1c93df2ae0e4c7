/**
 * Reads `letterhaus.env`: variables in a file, which the service and every command read alike, so that no command needs
 * a copy of the service's environment. The process's environment overrides the file in the data directory, which
 * overrides `/etc/letterhaus/letterhaus.env`. Only the latter may set the data directory.
 */
import { readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';

export type Env = Readonly<Record<string, string | undefined>>;

const FILE_NAME = 'letterhaus.env';
const MACHINE_FILE = `/etc/letterhaus/${FILE_NAME}`;
/** Variable that names another file than MACHINE_FILE. */
export const ENV_FILE = 'LETTERHAUS_ENV_FILE';
const DATA_DIR = 'LETTERHAUS_DATA_DIR';

export type MergedEnv = { env: Env; dataDir: string; problems: string[] };

/** @param options.cloneDir by default the clone of this code */
export function mergeEnvFiles(
  processEnv: Env,
  {
    isRoot = process.getuid?.() === 0,
    cloneDir = resolve(import.meta.dirname, '../..'),
  }: { isRoot?: boolean; cloneDir?: string } = {},
): MergedEnv {
  const problems: string[] = [];
  // Tests unset variables with undefined. An empty variable counts as not set (EnvReader).
  const ownEnv = Object.fromEntries(
    Object.entries(processEnv).filter(([, value]) => value !== undefined),
  );
  const configuredFile = ownEnv[ENV_FILE]?.trim() || null;
  const machineEnv = readEnvFile(configuredFile ?? MACHINE_FILE, {
    mustExist: configuredFile !== null,
    problems,
  });
  const configuredDir = { ...machineEnv, ...ownEnv }[DATA_DIR]?.trim() || null;
  const defaultDir = isRoot ? '/var/lib/letterhaus' : resolve(cloneDir, 'data');
  const dataDir =
    configuredDir === null ? defaultDir : resolve(configuredDir.replace(/^~(?=\/|$)/, homedir()));
  const file = join(dataDir, FILE_NAME);
  const dataDirEnv = readEnvFile(file, { mustExist: false, problems });
  if (DATA_DIR in dataDirEnv)
    problems.push(`${file}: leave out ${DATA_DIR}: this file is in the data directory.`);
  return { env: { ...machineEnv, ...dataDirEnv, ...ownEnv }, dataDir, problems };
}

function readEnvFile(
  file: string,
  { mustExist, problems }: { mustExist: boolean; problems: string[] },
): Record<string, string | undefined> {
  try {
    const { mode } = statSync(file);
    const isFile = (mode & 0o170000) === 0o100000;
    if (isFile && (mode & 0o022) !== 0) {
      problems.push(`${file}: other users can write it; run \`chmod 600 ${file}\`.`);
      return {}; // a command that uses a running service does not read the problems
    }
    const variables = parseEnv(readFileSync(file, 'utf8'));
    const secretName = Object.entries(variables).find(isSecret)?.[0];
    // The group may be the group of the service, which reads a file of root.
    if (isFile && (mode & 0o004) !== 0 && secretName !== undefined) {
      problems.push(
        `${file}: other users can read ${secretName} in it; run \`chmod o-r ${file}\`.`,
      );
    }
    return variables;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const isMissing = code === 'ENOENT' || code === 'ENOTDIR';
    if (mustExist || !isMissing) problems.push(`${file}: it cannot be read (${message}).`);
    return {};
  }
}

const SECRET_NAME = /(?:SECRET|SECRET_KEY|API_KEY|SECRET_ACCESS_KEY|TOKEN|PASSPHRASE|PASSWORD)$/;
const URL_WITH_PASSWORD = /:\/\/[^/?#]*:[^/?#]+@|[?&]password=/;

function isSecret([name, value = '']: [string, string | undefined]): boolean {
  return value.trim() !== '' && (SECRET_NAME.test(name) || URL_WITH_PASSWORD.test(value));
}

const KEY_NAME = /(?:KEY|KEY_ID|KEYS)$/;

/** Returns whether the value must not be shown. Stricter than the check of files: every key counts. */
export function isSecretVariable(name: string, value: string): boolean {
  return SECRET_NAME.test(name) || KEY_NAME.test(name) || URL_WITH_PASSWORD.test(value);
}
