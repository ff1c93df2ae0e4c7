/** `posthorn projects set-retention`: a project that keeps its mail for less time than the others. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  outlivesMetadata,
  parsePeriodH,
  type Retention,
  showPeriod,
} from '../../core/retention.ts';
import { findRetention, setRetention } from '../../store/retention.ts';
import { chooseProject, projectOption, type ProjectOptions } from '../choose-project.ts';
import { addCommand, isFailure, type Outcome, usageFailure } from '../command.ts';
import type { Cli } from '../context.ts';
import { withStore } from '../store.ts';

type Asked = number | 'default';
type Options = ProjectOptions & { content?: Asked; metadata?: Asked };

export function describeRetention(projects: Command, cli: Cli): void {
  addCommand(projects, cli, {
    name: 'set-retention',
    about: 'set how long a project keeps its mail',
    run: retention,
  })
    .addOption(periodOption('--content <period>', 'html, text and attachments'))
    .addOption(periodOption('--metadata <period>', 'emails with their timeline'))
    .addOption(projectOption());
}

function periodOption(flags: string, what: string): Option {
  return new Option(flags, `${what}: as 7d or 36h, or default`).argParser((text): Asked => {
    const hours = text === 'default' ? text : parsePeriodH(text);
    if (hours !== null) return hours;
    throw new InvalidArgumentError(
      'Write days or hours, as 7d or 36h, a day at least, or default.',
    );
  });
}

function retention(cli: Cli, options: Options): Promise<Outcome> {
  return withStore(cli, async ({ db, config }) => {
    const project = await chooseProject(db, options.project);
    if (isFailure(project)) return project;
    const before = await findRetention(db, project.id);
    const own: Retention = {
      contentH: changed(before.contentH, options.content),
      metadataH: changed(before.metadataH, options.metadata),
    };
    const problem = problemWith(own, config.retention);
    if (problem !== null) return usageFailure(problem);
    await setRetention(db, { projectId: project.id, ...own });
    const metadataH = own.metadataH ?? config.retention.metadataH;
    const contentH = shorter(own.contentH ?? config.retention.contentH, metadataH);
    return {
      data: {
        project_id: project.id,
        content: own.contentH === null ? null : showPeriod(own.contentH),
        metadata: own.metadataH === null ? null : showPeriod(own.metadataH),
      },
      text: `${project.name} keeps content for ${showPeriod(contentH)} and metadata for ${showPeriod(metadataH)}.`,
    };
  });
}

function changed(before: number | null, asked: Asked | undefined): number | null {
  if (asked === undefined) return before;
  return asked === 'default' ? null : asked;
}

function shorter(a: number | null, b: number | null): number | null {
  return a === null ? b : Math.min(a, b ?? Infinity);
}

/** A project may keep its mail for less time than the installation, not for longer. */
function problemWith(own: Retention, longest: Retention): string | null {
  for (const [what, ownH, longestH] of [
    ['content', own.contentH, longest.contentH],
    ['metadata', own.metadataH, longest.metadataH],
  ] as const) {
    if (ownH === null || longestH === null || ownH <= longestH) continue;
    const variable = `POSTHORN_RETENTION_${what.toUpperCase()}`;
    return `This installation keeps ${what} for ${showPeriod(longestH)} (${variable}); a project can only keep it for less.`;
  }
  if (own.contentH === null || own.metadataH === null || !outlivesMetadata(own)) return null;
  return 'Content cannot be kept for longer than metadata; give both with --content and --metadata.';
}
