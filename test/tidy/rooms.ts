/**
 * The layers of src/, by the role of a file inside its room. A room is a folder for one noun and holds all of it:
 * its SQL, its rules, its routes with their schemas, its command. The name of a file says its role.
 */
import { dirname, posix } from 'node:path';
import { importsOf, isTest, layerOf, type Rule, type SourceFile, typeImportsOf } from './source.ts';

/** Below the rooms: libraries of our own, rules that all rooms share, formats, protocols, the database. */
const BASE = ['lib', 'core', 'mail', 'net', 'database'] as const;
type Role = (typeof BASE)[number] | keyof typeof ROLES;

/**
 * The roles inside of rooms, by names of files and folders. The first that matches counts, and the last one takes
 * the rest.
 */
const ROLES = {
  /** Starts and connects everything. */
  service: /^(service\/|main\.ts)/,
  config: /^config\//,
  /** Commands of the command line, and what they share. */
  command: /^cli\/|(^|\/)(command|[\w-]+-command|command-[\w-]+)\.ts$|\/commands\//,
  /** Tasks that the service runs beside the mail. */
  watch: /(^|\/)(watch|[\w-]+-watch)\.ts$|^backup\/running\//,
  /** HTTP and SMTP: what a stranger's bytes meet first. In delivery SMTP is spoken as a client. */
  routes:
    /^http\/|(^|\/)(routes|schemas|[\w-]+-routes|[\w-]+-schemas|http-[\w-]+|(?<!delivery\/\w+\/)smtp-(?:inbound|submission))\.ts$/,
  /** SQL. */
  store: /\/store\/|-store\.ts$|^settle\/|^migration\//,
  compat: /^compat\//,
  /** The decisions of the room. */
  rules: /./,
};

const BELOW_STORE = ['lib', 'core', 'mail', 'database', 'store'];
const BELOW_RULES = [...BELOW_STORE, 'net', 'rules'];
const BELOW_ROUTES = [...BELOW_RULES, 'routes'];

/** The roles that a file may import from other rooms. In its own room routes import rules, and rules import stores. */
const MAY_IMPORT: Record<Role, readonly string[]> = {
  lib: [],
  core: ['lib'],
  mail: ['lib', 'core'],
  net: ['lib', 'core', 'mail'],
  database: ['lib', 'core', 'mail'],
  store: BELOW_STORE,
  rules: BELOW_RULES,
  routes: BELOW_ROUTES,
  compat: [...BELOW_ROUTES, 'compat'],
  // The rooms say what may be set.
  config: BELOW_RULES,
  watch: [...BELOW_RULES, 'watch', 'config', 'service'],
  command: [...BELOW_RULES, 'watch', 'config', 'service', 'command'],
  service: [...BELOW_ROUTES, 'compat', 'watch', 'config', 'service'],
};
/** In its own room a file may also import what stands below it there. */
const IN_ROOM: Partial<Record<Role, readonly string[]>> = { store: ['rules'] };

/** Files that a room offers to the rules of other rooms. Its other files are private. */
export const PORTS: Record<string, readonly string[]> = {
  accept: ['accept-refusals.ts', 'accept-results.ts', 'accept.ts', 'draft.ts'],
  accounts: ['keys/auth-limiter.ts', 'keys/key-cache.ts', 'storage/storage-account.ts'],
  backup: ['backup-age.ts', 'newest-backup.ts', 'places/bucket-url.ts'],
  delivery: ['hand-over.ts', 'route/tls-rules.ts', 'shaping/provider-state.ts'],
  domains: [
    'dns/advice.ts',
    'dns/authentication.ts',
    'dns/dmarc-records.ts',
    'dns/records.ts',
    'dns/verify.ts',
    'dns/zone-names.ts',
    'dmarc/dmarc.ts',
    'domain-check.ts',
  ],
  'move-in': [
    'csv.ts',
    'entries.ts',
    'suppression-services.ts',
    'template-translation.ts',
    'translate.ts',
  ],
  operator: ['operator-event-log.ts'],
  reputation: ['alert.ts'],
  secrets: ['secret-box.ts', 'secret-key-file.ts', 'secret-keys.ts'],
  templates: ['liquid.ts', 'templates.ts', 'variables.ts', 'work.ts'],
  webhooks: ['sending/signed-request.ts'],
};

/** Imports against the direction: the start of the command line. */
const EXCEPTIONS: Record<string, readonly string[]> = {
  'src/main.ts': ['src/cli/program.ts'],
};

/** Node modules that neither read nor write anything outside the process. */
const PURE_NODE_MODULES = ['buffer', 'crypto', 'punycode', 'url', 'util', 'zlib'];

export const layersAreKept: Rule = (files) =>
  files
    .filter((file) => !isTest(file) && layerOf(file.path) !== null)
    .flatMap((file) => {
      const types = typeImportsOf(file);
      return importsOf(file)
        .filter((target) => isForbidden(file.path, target, types.includes(target)))
        .map((target) => `${file.path} must not import ${target}.`);
    });

function isForbidden(path: string, target: string, isType: boolean): boolean {
  if (EXCEPTIONS[path]?.includes(target)) return false;
  const [role, room] = [roleOf(path), layerOf(path)];
  if (layerOf(target) === null) return isForeign(role, target);
  const [targetRole, targetRoom] = [roleOf(target), layerOf(target)];
  if (room === targetRoom && [role, ...(IN_ROOM[role] ?? [])].includes(targetRole)) return false;
  // Any room may know the shape of what an operator can set, and a statement the shape of what it returns.
  if (isType && targetRole === 'config' && !isBase(role)) return false;
  if (isType && targetRole === 'rules' && role === 'store') return false;
  if (!MAY_IMPORT[role].includes(targetRole)) return true;
  return role === 'rules' && targetRole === 'rules' && !isPort(target);
}

function isForeign(role: Role, target: string): boolean {
  if (target.startsWith('node:')) {
    const [, name = ''] = target.split(':');
    return ['core', 'mail'].includes(role) && !PURE_NODE_MODULES.includes(name);
  }
  return role === 'core' || /^(test|bench|scripts)\//.test(target);
}

function isBase(role: Role): boolean {
  return BASE.some((base) => base === role);
}

function isPort(target: string): boolean {
  const room = layerOf(target) ?? '';
  return (PORTS[room] ?? []).some((port) => target === `src/${room}/${port}`);
}

export function roleOf(path: string): Role {
  const room = layerOf(path) ?? '';
  const base = BASE.find((name) => name === room);
  if (base !== undefined) return base;
  const inSrc = path.slice('src/'.length);
  const found = Object.entries(ROLES).find(([, pattern]) => pattern.test(inSrc));
  return (found?.[0] ?? 'rules') as Role;
}

export const portsAreThere: Rule = (files) => {
  const paths = new Set(files.map(({ path }) => path));
  return Object.entries(PORTS)
    .flatMap(([room, ports]) => ports.map((port) => posix.join('src', room, port)))
    .filter((path) => !paths.has(path))
    .map((path) => `${path} is a port of its room, but is not there.`);
};

const FILES_MAX = 12;

/** @param exceptions folder → why it holds more */
export const roomsStaySmall =
  (exceptions: Record<string, string>): Rule =>
  (files) => {
    const rooms = Map.groupBy(
      files.filter((file) => !isTest(file)),
      ({ path }) => dirname(path),
    );
    return [...rooms].flatMap(([room, { length }]) => {
      const isExcused = exceptions[room] !== undefined;
      if (length > FILES_MAX && !isExcused)
        return [`${room} has ${length} files (${FILES_MAX} at most): divide it by noun.`];
      return isExcused && length <= FILES_MAX ? [`${room} needs no exception any more.`] : [];
    });
  };

/** The root of src/ holds the entry; everything else has a folder that says what it is part of. */
export const theRootHoldsTheEntry: Rule = (files) =>
  files
    .filter((file) => /^src\/[^/]+$/.test(file.path) && file.path !== 'src/main.ts')
    .map((file) => `${file.path} lies beside main.ts; give it a folder.`);

/** Names that say nothing: every file is of service to somebody and presents something. */
const EMPTY_NAMES = /\/(service|present|utils?|helpers?|common|misc|index)\.ts$/;

export const namesSayWhatIsInside: Rule = (files: readonly SourceFile[]) =>
  files
    .filter(({ path }) => EMPTY_NAMES.test(path))
    .map(({ path }) => `${path} has a name that says nothing; use the noun.`);

const GUIDE_LINES_MAX = 25;

/** Each room has a short README, and the files that it names are there. */
export const roomsHaveGuides: Rule = (files) => {
  const paths = new Set(files.map(({ path }) => path));
  const rooms = new Set(files.flatMap(({ path }) => /^src\/[^/]+(?=\/)/.exec(path) ?? []));
  return [...rooms].flatMap((room) => {
    const guide = files.find(({ path }) => path === `${room}/README.md`);
    if (guide === undefined) return [`${room} has no README.md.`];
    const lines = guide.text.split('\n').length - 1;
    const missing = [...guide.text.matchAll(/`([\w/-]+(?:\.test)?\.ts)`/g)]
      .map(([, name = '']) => name)
      .filter((name) => !paths.has(name) && !paths.has(`${room}/${name}`));
    return [
      ...(lines > GUIDE_LINES_MAX
        ? [`${guide.path} has ${lines} lines (${GUIDE_LINES_MAX} at most).`]
        : []),
      ...missing.map((name) => `${guide.path} names ${name}, which is not there.`),
    ];
  });
};
