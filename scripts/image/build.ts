/** Builds the stages of a Dockerfile as root folders, each on a fresh Debian, as Docker builds them as layers. */
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { statSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readDockerfile, type Commands, type Stage, type Step } from './dockerfile.ts';
import { ignoredBy } from './ignored.ts';
import { installationEnvironment, runInside, type Account, type Inside } from './root-folder.ts';

export type Image = {
  root: string;
  commands: Commands;
  env: Record<string, string>;
  workdir: string;
  user: Account;
  volumes: string[];
};

type Places = { repository: string; debian: string; folder: string };

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * Builds all stages, and returns the last one.
 * @param places.debian a root folder with the suite that all stages have
 * @param places.folder where the stages go
 */
export async function buildImage(places: Places): Promise<Image> {
  const stages = readDockerfile(readFileSync(join(places.repository, 'Dockerfile'), 'utf8'));
  const roots = new Map<string, string>();
  let image: Image | null = null;
  for (const [index, stage] of stages.entries()) {
    process.stdout.write(`FROM ${stage.base}\n`);
    const root = baseRoot(places.debian, join(places.folder, `stage-${index}`));
    if (stage.base.startsWith('node:')) await addNode(root);
    image = await buildStage(stage, { ...places, root, roots });
    if (stage.name !== null) roots.set(stage.name, root);
  }
  if (image === null) throw new Error('The Dockerfile has no stage.');
  return image;
}

/** Copies a root folder to a place of its own. */
export function baseRoot(debian: string, root: string): string {
  execFileSync('cp', ['-a', '--reflink=auto', debian, root]);
  return root;
}

/** Adds the bundled Node and the npm of this machine, in place of those that the image of Node has. */
async function addNode(root: string): Promise<void> {
  await runInside(installation(root), [
    'sh',
    '-c',
    'apt-get update && apt-get install -y libatomic1',
  ]);
  const npm = dirname(
    dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())),
  );
  cpSync(process.execPath, join(root, 'usr/local/bin/node'));
  cpSync(npm, join(root, 'usr/local/lib/node_modules/npm'), { recursive: true });
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm'));
}

/** A root folder with the network of this machine, for what installs packages. */
export function installation(root: string): Inside & { env: Record<string, string> } {
  return { root, workdir: '/', env: { PATH, HOME: '/root', ...installationEnvironment() } };
}

type Building = Places & { root: string; roots: ReadonlyMap<string, string> };

async function buildStage({ steps, commands }: Stage, building: Building): Promise<Image> {
  const { root } = building;
  const image: Image = {
    root,
    commands,
    workdir: '/',
    volumes: [],
    env: { PATH },
    user: { uid: 0, gid: 0 },
  };
  for (const step of steps) await follow(step, image, building);
  return image;
}

async function follow(step: Step, image: Image, building: Building): Promise<void> {
  const { root } = image;
  switch (step.kind) {
    case 'workdir':
      image.workdir = step.path;
      mkdirSync(join(root, step.path), { recursive: true });
      return;
    case 'env':
      Object.assign(image.env, step.variables);
      return;
    case 'user':
      image.user = step;
      return;
    case 'volume':
      image.volumes.push(step.path);
      return;
    case 'copy':
      copy(step, image, building);
      return;
    case 'run':
      process.stdout.write(`RUN ${step.command}\n`);
      await runInside({ ...installation(root), workdir: image.workdir }, [
        'sh',
        '-c',
        step.command,
      ]);
      return;
  }
}

/** As Docker does: a folder gives its content, and everything belongs to root. */
function copy(
  { from, sources, target }: Step & { kind: 'copy' },
  image: Image,
  building: Building,
) {
  const to = target.startsWith('/') ? target : join(image.workdir, target);
  for (const source of sources) {
    process.stdout.write(`COPY ${from ?? ''} ${source} ${to}\n`);
    if (from !== null) {
      execFileSync('cp', [
        '-a',
        `${building.roots.get(from)}${source}/.`,
        makeFolder(image.root, to),
      ]);
      continue;
    }
    const files = contextOf(building.repository).filter(
      (path) => source === '.' || path === source || path.startsWith(`${source}/`),
    );
    if (files.length === 0) throw new Error(`.dockerignore leaves out ${source}.`);
    for (const path of files) {
      const name = source === '.' ? path : path.slice(dirname(source).length + 1);
      copyFile(join(building.repository, path), join(image.root, to, name));
    }
  }
}

/** Files that git knows or would add, without those that .dockerignore leaves out. */
function contextOf(repository: string): string[] {
  const list = ['ls-files', '--cached', '--others', '--exclude-standard', '-z'];
  const files = execFileSync('git', list, { cwd: repository, encoding: 'utf8' }).split('\0');
  const isIgnored = ignoredBy(readFileSync(join(repository, '.dockerignore'), 'utf8'));
  return files.filter((path) => path !== '' && !isIgnored(path));
}

function makeFolder(root: string, path: string): string {
  mkdirSync(join(root, path), { recursive: true });
  return join(root, path);
}

function copyFile(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(from, to);
  chmodSync(to, statSync(from).mode & 0o777);
  chownSync(to, 0, 0);
}
