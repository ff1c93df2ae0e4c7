/** One template: its editor with a live preview. */
import { useParams } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { TemplateEditor } from './editor.tsx';
import { TemplateFrame, useTemplate } from './head.tsx';

const ROUTE = '/$project/$environment/templates/$id';

export function TemplateScreen(): ReactNode {
  const { id } = useParams({ from: ROUTE });
  const template = useTemplate(id);
  return (
    <>
      {!template.isSuccess && (
        <TemplateFrame>
          {template.isPending && <RowsSkeleton />}
          {template.isError && (
            <Problem error={template.error} retry={() => void template.refetch()} />
          )}
        </TemplateFrame>
      )}
      {template.isSuccess && <TemplateEditor key={id} template={template.data} />}
    </>
  );
}
