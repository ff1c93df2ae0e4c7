/** Exports the suppression list: as the CSV of the service, which is complete, or as JSON, read page by page. */
import { type ReactNode, useState } from 'react';
import type { Suppression } from '../../../../sdk/src/api.ts';
import { respond } from '../../api/client.ts';
import { saveAs, saveResponse } from '../../api/download.ts';
import { type Api, useApi } from '../../api/scope.ts';
import { type ExportFormat, ExportMenu } from '../../ui/export-menu.tsx';
import { sentenceOf } from '../../ui/states.tsx';

const PAGE = 100;
const JSON_ROWS_MAX = 10_000;

export function SuppressionExport(): ReactNode {
  const api = useApi();
  const [isRunning, setRunning] = useState(false);
  const [text, setText] = useState('');
  const save = async (format: ExportFormat): Promise<void> => {
    setRunning(true);
    setText('');
    try {
      setText(format === 'csv' ? await saveCsv(api) : await saveJson(api));
    } catch (error) {
      setText(sentenceOf(error));
    }
    setRunning(false);
  };
  return (
    <>
      <span role="status" className="text-sm text-muted empty:hidden">
        {text}
      </span>
      <ExportMenu isDisabled={isRunning} onChoose={(format) => void save(format)} />
    </>
  );
}

async function saveCsv({ scope }: Api): Promise<string> {
  await saveResponse(await respond('exportSuppressions', { scope }), 'suppressions.csv');
  return '';
}

/** @returns that there are more than the file has, or nothing */
async function saveJson(api: Api): Promise<string> {
  const rows: Suppression[] = [];
  let hasMore = true;
  while (hasMore && rows.length < JSON_ROWS_MAX) {
    const query = { limit: PAGE, after: rows.at(-1)?.address };
    const page = await api.call('listSuppressions', { query });
    rows.push(...page.data);
    hasMore = page.has_more;
  }
  const content = new Blob([`${JSON.stringify(rows, null, 2)}\n`], { type: 'application/json' });
  saveAs(content, 'suppressions.json');
  if (!hasMore) return '';
  return `The first ${rows.length.toLocaleString()} addresses were saved. The CSV has all.`;
}
