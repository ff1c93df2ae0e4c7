/** A card on a page without a body of cards (PageBody). */
import type { ReactNode } from 'react';
import { Card } from './card.tsx';

export function Section(props: {
  title: string;
  about?: ReactNode;
  /** Buttons beside the title. */
  actions?: ReactNode;
  /** Content of full width, like a table. */
  wide?: ReactNode;
  children?: ReactNode;
}): ReactNode {
  return (
    <div className="mx-(--page-x) mb-6 max-w-[76rem] shrink-0">
      <Card title={props.title} about={props.about} actions={props.actions} wide={props.wide}>
        {props.children && <div className="max-w-2xl space-y-3">{props.children}</div>}
      </Card>
    </div>
  );
}
