/**
 * Reads the part of a Dockerfile's language that this repository uses. Anything else is an error, so that a check never
 * passes over an instruction that Docker would follow.
 */

export type Step =
  | { kind: 'workdir'; path: string }
  | { kind: 'copy'; from: string | null; sources: string[]; target: string }
  | { kind: 'run'; command: string }
  | { kind: 'env'; variables: Record<string, string> }
  | { kind: 'user'; uid: number; gid: number }
  | { kind: 'volume'; path: string };

/** The commands of a container, as lists of words. */
export type Commands = { entrypoint: string[]; command: string[]; healthcheck: string[] };

export type Stage = { base: string; name: string | null; steps: Step[]; commands: Commands };

/** @throws Error that names the line which it cannot read */
export function readDockerfile(text: string): Stage[] {
  const stages: Stage[] = [];
  for (const line of instructionsOf(text)) {
    const [, word = '', rest = ''] = /^([A-Z]+)\s+(.*)$/s.exec(line) ?? [];
    if (word === 'FROM') stages.push(newStage(rest));
    else if (stages.length === 0 || !readInto(stages.at(-1)!, word, rest)) {
      throw new Error(`The Dockerfile has an instruction that this check does not know: ${line}`);
    }
  }
  return stages;
}

/** Instructions without comments, each in one line. */
function instructionsOf(text: string): string[] {
  return text
    .replaceAll(/^\s*#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line.trim() !== '');
}

function newStage(rest: string): Stage {
  const [, base = '', name = null] = /^(\S+)(?: AS (\S+))?$/.exec(rest) ?? [];
  return { base, name, steps: [], commands: { entrypoint: [], command: [], healthcheck: [] } };
}

/** @returns false for an unknown instruction */
function readInto({ steps, commands }: Stage, word: string, rest: string): boolean {
  const step = readStep(word, rest);
  if (step !== null) steps.push(step);
  else if (word === 'ENTRYPOINT') commands.entrypoint = words(rest);
  else if (word === 'CMD') commands.command = words(rest);
  else if (word === 'HEALTHCHECK') commands.healthcheck = words(rest.replace(/^.*? CMD /, ''));
  else return word === 'EXPOSE' || word === 'STOPSIGNAL';
  return true;
}

function readStep(word: string, rest: string): Step | null {
  if (word === 'WORKDIR') return { kind: 'workdir', path: rest };
  if (word === 'RUN') return { kind: 'run', command: rest };
  if (word === 'VOLUME') return { kind: 'volume', path: rest };
  if (word === 'ENV') {
    const pairs = [...rest.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name!, value!]);
    return { kind: 'env', variables: Object.fromEntries(pairs) as Record<string, string> };
  }
  if (word === 'USER') {
    const [, uid, gid] = /^(\d+):(\d+)$/.exec(rest) ?? [];
    return uid === undefined ? null : { kind: 'user', uid: Number(uid), gid: Number(gid) };
  }
  if (word !== 'COPY') return null;
  const [, from = null, paths = ''] = /^(?:--from=(\S+) )?([^-].*)$/.exec(rest) ?? [];
  const sources = paths.split(' ').filter((path) => path !== '');
  const target = sources.pop();
  return target === undefined ? null : { kind: 'copy', from, sources, target };
}

function words(json: string): string[] {
  return JSON.parse(json) as string[];
}
