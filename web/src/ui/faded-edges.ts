import { type RefObject, useEffect, useRef } from 'react';

/** How far a row may be off, in pixels, because browsers round. */
const SLACK_PX = 1;

/** Fades a row at the edge beyond which it goes on, so that what is cut there looks as if it could be scrolled to. */
export function useFadedEdges<Row extends HTMLElement>(): RefObject<Row | null> {
  const row = useRef<Row>(null);
  const mark = (): void => {
    const element = row.current;
    if (element === null) return;
    const { scrollLeft, scrollWidth, clientWidth } = element;
    element.toggleAttribute('data-more-before', scrollLeft > SLACK_PX);
    element.toggleAttribute('data-more-after', scrollWidth - clientWidth - scrollLeft > SLACK_PX);
  };
  useEffect(() => {
    const element = row.current;
    if (element === null) return;
    const sizes = new ResizeObserver(mark);
    sizes.observe(element);
    element.addEventListener('scroll', mark, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener('scroll', mark);
    };
  }, []);
  // Its content may have changed.
  useEffect(mark);
  return row;
}
