/** Statements of templates, for statements.ts. */
import * as templates from '../../src/templates/template-store.ts';
import type { Stage } from './statements.ts';

/** Creates, changes, publishes, reads and deletes a template. */
export async function useTemplates({ db, sender }: Stage): Promise<void> {
  const content = { subject: 'Hi', html: '<p>Hi</p>', text: null, variables: [] };
  const made = await templates.createTemplate(db, sender, {
    name: 'x',
    alias: 'x',
    savedBy: null,
    ...content,
  });
  const id = made!.id;
  const page = { limit: 20, after: null, before: null };
  for (const part of [null, 'x']) await templates.listTemplates(db, sender, { ...page, part });
  for (const named of [id, 'x']) await templates.findTemplate(db, sender, named);
  await templates.findVersion(db, sender, { id, version: 1 });
  await templates.listVersions(db, sender, id);
  await db.transaction(async (tx) => {
    await templates.lockTemplate(tx, sender, id);
    await templates.renameTemplate(tx, sender, { id, name: 'y', alias: 'y' });
    await templates.writeDraft(tx, sender, { ...content, id, version: 2, savedBy: null });
    await templates.publishVersion(tx, sender, { id, version: 2 });
  });
  await templates.deleteTemplate(db, sender, id);
}
